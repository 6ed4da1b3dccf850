"""Receipts rules: limits on the figures of an audit of live receipts (``lab canary audit``).

A figure that is a mean over recalls is judged by sessions, after each of them (:mod:`lab.gate.sessions`). Another share
of a count (``of``) passes if its exact one-sided bound (Clopper and Pearson 1934) lies within the limit, fails if the
opposite bound lies outside it, and is inconclusive otherwise: it assumes independent recalls and one look. A figure
without ``of`` is compared with its limit directly.

An audit of live receipts is a file that ``lab canary audit`` writes (:mod:`lab.canary.audit`). Its schema is here, and
whether it is evidence at all.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from lab.base.errors import LabError, UnusableInput
from lab.base.files import read_json
from lab.base.formatting import counted
from lab.base.shape import expect, field, json_type, optional
from lab.gate.keys import ACCEPT
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, Line, bounds, lacking, line, unmeasurable
from lab.gate.policy import Policy, Rule
from lab.gate.scheduled import interference, judge_scheduled
from lab.gate.sessions import is_judged, judge_sessions

SCHEMA = "lab.receipts.audit.v1"
# The receipt of a canary, beside its audit.
CANARY = "canary.json"
# Markers of the engine whose JSON is read.
WITH_JSON = (
    *("autoRecall.receipt", "autoCapture.receipt", "scopeFallback", "scopeFallbackSuppressed"),
    *("todoGuardrail", "contextBudget", "docsColdLane.search"),
)
# How much answers vary: nothing if the store has no more memories than a few recalls hold.
# A larger store with as few must memories is still judged: there, what repeats is the policy's choice.
FEW_RECALLS = 3
VARIATION = ("repeat.rate", "repeat.longest_streak", "must.share", "repeat.distinct_share")
# The same, advisory. Audits of earlier versions lack it.
DOMINANCE = "repeat.dominance"
# Kinds of damage.
KINDS = {
    "gzip": "the gzip file is truncated or damaged",
    "too_long": "the line is longer than any line of the engine",
    "not_utf8": "the line is not valid UTF-8",
    "no_json": "a marker without its JSON",
    "cut_off": "the JSON is truncated",
    "not_json": "the JSON is invalid",
    "duplicate": "the same line, with the same time, was read before",
    "unknown_schema": "an unknown schema",
    "shape": "a field is missing or has an invalid value",
    "unknown_reason": "a reason is a duplicate, out of order, or not one of a skip",
    "counts": "the counts are inconsistent",
    "listed": "a list is too long, out of order or inconsistent with another",
    "quota": "the quotas do not match the selection",
    "text": "a text in a field for ids and names",
}


# Kinds of lines that could not be read, with what would help; the others were read, and what they say is wrong.
UNREAD = {
    "too_long": "split the file into lines, or export it as JSON with a record for each line",
    "not_utf8": "convert it to UTF-8, for example with iconv",
    "no_json": "export it as the collector's own JSON, or as it got the lines",
    "cut_off": "raise the length at which the collector cuts off lines",
    "not_json": "export it as the collector's own JSON, or as it got the lines",
    "unknown_schema": "the engine is of another version than the lab knows",
    "shape": "the engine is of another version than the lab knows",
}
FOREIGN = "foreign"
# A log of fewer lines with the engine's JSON shows no format; this share of them fails for one reason.
_LEAST, _SHARE = 3, 0.9
# A log of fewer lines is not said to be another program's.
FOREIGN_FROM = 20
# So many lines that all fail are enough: the rest of a log, however long, is not read.
ENOUGH = 1000
ACCEPTED = "accepted are the gateway's log file or console, also compressed or as a log collector keeps it"
# Shares of an audit, with the counts that they are made of: each must be what its counts say.
SHARES = {
    "errors.rate": ("errors.failed", "errors.attempts"),
    "recalls.empty_rate": ("recalls.empty", "recalls.answered"),
    "limits.uneven_rate": ("limits.uneven", "recalls.answered"),
    "provider.rate": ("provider.failed", "recalls.answered"),
}
# Figures that are counted session by session.
BY_SESSION = ("repeat.", "stale.")


def unreadable(audit: Mapping[str, Any]) -> str | None:
    """Return why the format of a log is not understood, so that the audit is no evidence; else None.

    Audits of earlier versions count such lines as damage.
    """
    for one in audit.get("not_understood", ()):
        if one["kind"] == FOREIGN:
            return f"{one['file']}: the format is not understood: {one['what']}; {ACCEPTED}"
        return _sentence(f"{one['file']}:{one['line']}", one["kind"], one["what"], one["failed"], one["of"])
    kinds = audit["damage"].get("by_kind", {})
    kind, failed = max(
        ((kind, kinds.get(kind, 0)) for kind in UNREAD if kind != "shape"), key=lambda entry: int(entry[1])
    )
    total = sum(int(audit.get("markers", {}).get(name, 0)) for name in WITH_JSON)
    total += sum(int(count) for kind, count in kinds.items() if kind not in ("duplicate", "gzip"))
    if not is_format(failed, total):
        return None
    return _sentence(", ".join(one["file"] for one in audit["files"]), kind, KINDS[kind], failed, total)


def nothing_found(audit: Mapping[str, Any]) -> str | None:
    """Return an explanation if the logs contain no trace of recall, not even a failed one; else None."""
    if reason := unreadable(audit):
        return reason
    if audit["recalls"]["receipts"] or audit["errors"]["attempts"] or audit["damage"]["lines"]:
        return None
    if audit.get("elsewhere"):
        return gateways(audit)
    return (
        f"no recall receipt in {counted(audit['lines'], 'line')}: is this the gateway's log? "
        "Are receipts enabled (receipts.enabled)?"
    )


def notes(audit: Mapping[str, Any]) -> list[str]:
    """Return the notes on an audit, or an empty list."""
    sentences = [
        _copies(audit["copies"]),
        _pairs(audit["pairs"], audit["recalls"]["receipts"]),
        mixed_sessions(audit),
        _reasons(audit.get("unknown_reasons", {})),
        interference(audit),
        gateways(audit),
    ]
    return [sentence for sentence in sentences if sentence]


def gateways(audit: Mapping[str, Any]) -> str | None:
    """Return a note on a log in which engines of several databases started, or None."""
    starts = ", ".join(f"{name} ({counted(count, 'start')})" for name, count in audit.get("databases", {}).items())
    if others := audit.get("elsewhere"):
        return f"{counted(others['recalls'], 'recall')} of another gateway left out, which writes this log: {starts}"
    if not starts:
        return None
    return (
        f"engines of several databases write this log: {starts}. If they run at once, all figures mix them; "
        "`lab canary audit --home` reads one alone, and its own logging.file keeps it apart"
    )


def mixed_sessions(audit: Mapping[str, Any]) -> str | None:
    """Return a note on the effect of lines without a session, or None if every line has one."""
    unnamed, named = audit["repeat"]["by"]["scope"], audit["repeat"]["by"]["session"]
    if not unnamed:
        return None
    return (
        f"{unnamed} of {counted(unnamed + named, 'answered recall')} have no session: the recalls of a scope count as "
        "one session. If several sessions were open at once, repeat rate, streaks and stale answers mix them"
    )


def _reasons(unknown: Mapping[str, int]) -> str | None:
    if not unknown:
        return None
    named = ", ".join(f"{name} ({counted(count, 'receipt')})" for name, count in unknown.items())
    return f"unknown reason: {named}; the engine is of a newer version than the lab knows, and these recalls count"


def _copies(copies: Mapping[str, int]) -> str | None:
    if not copies["count"]:
        return None
    lost = f" (forgotten: {counted(copies['lost'], 'earlier line')}; some may count twice)" if copies["lost"] else ""
    lines = counted(copies["count"], "line")
    return f"{lines} also in another log of the same gateway, counted once{lost}"


def _pairs(pairs: Mapping[str, Any], receipts: int) -> str | None:
    if pairs["undecided"]:
        return (
            f"{counted(pairs['undecided'], 'receipt')} equal to the previous receipt, in lines without a time: counted "
            "as recalls, though a host that runs two hooks per turn would log the same"
        )
    if not pairs["count"]:
        return None
    how = f"{pairs['by_trace']} by trace id, {pairs['by_time']} by equal receipts within 4 s"
    twice = f"; the block was injected twice in {pairs['injected']}" if pairs["injected"] else ""
    return (
        f"{pairs['count']} of {counted(receipts, 'recall')} have a second receipt for the same turn (the host runs two "
        f"hooks), counted once: {how}{twice}"
    )


def is_format(failed: int, total: int) -> bool:
    """Return whether so many failed lines of all with the engine's JSON are a format, rather than damage."""
    return failed >= _LEAST and failed >= _SHARE * total


def _sentence(where: str, kind: str, what: str, failed: int, total: int) -> str:
    lines = f"{failed:,} of {counted(total, 'line')} with the engine's JSON cannot be read for one reason"
    return f"{where}: the format is not understood: {lines}: {what}; {UNREAD[kind]}; {ACCEPTED}"


ANSWERED = "recalls.answered"
NO_VALUE = "the audit has no value for it"
# What each count of an audit counts.
UNITS = {
    "errors.attempts": "recalls",
    "damage.of": "engine log lines",
    ANSWERED: "answered recalls",
    "recalls.receipts": "receipts",
    "lanes.items": "items",
    "lanes.with_hits": "recalls with hits",
    "stale.recalls": "recalls with hits",
    "stale.vec_recalls": "recalls with hits in the vector lane",
    "scope.items": "items",
    "quota.recalls": "recalls with quotas",
    "quota.nice_there": "recalls with nice candidates",
    "budget.recalls": "recalls with a budget",
}
_MOST = 1 << 40
_EXACT = 1 << 53
_MAKE = "create one with `lab canary audit {} --out FILE`"


def undone(folder: Path) -> str | None:
    """Return that the canary of a folder was rolled back, as a sentence; None if it was not, or if there was none."""
    try:
        value = read_json(folder / CANARY)
        path, before = ".".join(map(str, value["path"])), value["before"]
        done = value["rolled_back"] is True
    except (LabError, KeyError, TypeError):
        return None
    return f"Rolled back: {path} is {'not set' if before is None else before} again." if done else None


def read_audit(path: Path) -> dict[str, Any]:
    """Return the audit that ``lab canary audit --out`` wrote; raise :class:`UnusableInput` for anything else."""
    try:
        value = read_json(path)
    except UnusableInput as error:
        if not path.is_file():
            raise
        raise UnusableInput(f"{error}; expected an audit of receipts; {_MAKE.format(path)}") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        actual = f"schema {value.get('schema')!r}" if isinstance(value, dict) else json_type(value)
        raise UnusableInput(f"{path}: not an audit of receipts ({actual}, not {SCHEMA}); {_MAKE.format('LOG')}")
    if "of" not in field(value, "damage", dict, str(path)):
        raise UnusableInput(f"{path}: damage: no count of lines (`of`); audit the logs again with this version")
    if "stale" not in value or "sessions" not in value:
        raise UnusableInput(f"{path}: written by an earlier version; audit the logs again with this version")
    recalls = field(value, "recalls", dict, str(path))
    for name in ("receipts", "answered"):
        field(recalls, name, int, f"{path}: recalls")
    # Needed to explain logs without receipts.
    field(value, "lines", int, str(path))
    field(field(value, "errors", dict, str(path)), "attempts", int, f"{path}: errors")
    field(value["damage"], "lines", int, f"{path}: damage")
    for entry in field(value, "files", list, str(path)):
        field(entry, "file", str, f"{path}: files")
    # Needed for remarks.
    by = field(field(value, "repeat", dict, str(path)), "by", dict, f"{path}: repeat")
    for name in ("scope", "session"):
        field(by, name, int, f"{path}: repeat.by")
    for name, count in optional(value["damage"], "by_kind", dict, {}, f"{path}: damage").items():
        expect(count, int, f"{path}: damage.by_kind.{name}")
    _require_exact(value, str(path))
    _require_sessions(field(value, "sessions", dict, str(path)), f"{path}: sessions")
    for name, of in SHARES.items():
        share, part, total = (_number(value, figure_path) for figure_path in (name, *of))
        if share is not None and part is not None and total and not math.isclose(share, part / total, abs_tol=1e-9):
            raise UnusableInput(
                f"{path}: {name} is {share:.6g}, and {of[0]} of {of[1]} is {part:g} of {total:g}; audit the logs again"
            )
    if reason := unreadable(value):
        raise UnusableInput(f"{path}: no evidence: {reason}; then audit the logs again")
    return value


def _require_sessions(value: Mapping[str, Any], where: str) -> None:
    """Raise :class:`UnusableInput` for sums of sessions that are no columns of equal length."""
    for name in ("closed", "open", "each", "gap_minutes"):
        field(value, name, int, where)
    rows = len(field(value, "ended", list, where))
    columns = {"recalls": field(value, "recalls", list, where)}
    for name, sums in field(value, "sums", dict, where).items():
        columns |= {f"{name}: {key}": field(sums, key, list, f"{where}: {name}") for key in ("part", "of")}
    for name, column in columns.items():
        if len(column) != rows or any(isinstance(one, bool) or not isinstance(one, int | float) for one in column):
            raise UnusableInput(
                f"{where}: {name}: not a number for each of {counted(rows, 'session')}; audit the logs again"
            )


def _number(audit: Mapping[str, Any], path: str) -> float | None:
    """Return the number at a path of two names, or None: whether a rule may use it is for :func:`figure` to say."""
    first, _, last = path.partition(".")
    value = audit[first].get(last) if isinstance(audit.get(first), Mapping) else None
    return value if isinstance(value, int | float) else None


def _require_exact(value: Any, where: str) -> None:
    """Raise :class:`UnusableInput` for numbers above 2**53, which floats cannot hold exactly and no audit reaches."""
    if isinstance(value, int | float) and not abs(value) <= _EXACT:
        raise UnusableInput(f"{where}: holds a number outside the range of an audit; audit the logs again")
    for key, inner in value.items() if isinstance(value, dict) else ():
        _require_exact(inner, f"{where}: {key}" if where.count(": ") < 1 else f"{where}.{key}")


def judge_receipts(
    policy: Policy, rules: Sequence[Rule], audit: Mapping[str, Any], control: Mapping[str, Any] | None = None
) -> Iterator[Line]:
    """Yield one line per rule. Raise :class:`UnusableInput` for an unknown path; a null counts as missing data.

    What the control is shown to break as well was not caused by the switch: such a rule does not fail, and does not
    pass. An incident, and answers that do not vary, fail all the same: the switch is there to mend the latter.
    """
    lines = list(_lines(policy, rules, audit))
    others = iter(_lines(policy, rules, control) if control is not None else ())
    for rule, one, other in zip_longest(rules, lines, others):
        is_alike = other is not None and one.status == other.status == FAIL
        if not is_alike or rule.at_most == 0 or rule.measure in VARIATION:
            yield one
        else:
            why = "the control breaks it as well, so the switch is not the cause"
            yield replace(one, status=INCONCLUSIVE, reason=f"{one.reason}; {why}", settles="a sound window before it")
    yield from judge_scheduled(rules, audit)


def _lines(policy: Policy, rules: Sequence[Rule], audit: Mapping[str, Any]) -> Iterator[Line]:
    if reason := unreadable(audit):
        # What could not be read is no evidence against the engine.
        yield from (line(rule, ERROR, reason) for rule in rules)
        return
    answered = figure(audit, ANSWERED, f"{policy.where}: receipts") or 0
    missing = policy.minimum_receipts - answered
    for rule in rules:
        where = f"{policy.where}: receipts {rule.measure}"
        value = figure(audit, rule.measure, where)
        by_session = is_judged(rule, audit)
        if by_session:
            if rule.of is not None:
                figure(audit, rule.of, f"{where}: of")
            result = lacking(rule, NO_VALUE) if value is None else judge_sessions(policy, rule, audit)
        elif rule.of is None:
            total = None
            result = lacking(rule, NO_VALUE) if value is None else _plain(rule, value)
        else:
            total = figure(audit, rule.of, f"{where}: of")
            result = _share(rule, value, total, answered, policy, where)
        # A failure shown by bounds, or one case of something forbidden, needs no minimum of receipts; nor do sessions.
        shown = rule.of is not None or rule.at_most == 0
        if missing > 0 and not by_session and value is not None and not (result.status == FAIL and shown):
            why = f"{answered:g} answered recalls; the policy requires at least {policy.minimum_receipts}"
            more = max(int(missing), result.more_recalls or 0)
            settles = counted(math.ceil(missing), "more answered recall")
            result = line(rule, INCONCLUSIVE, why, settles, candidate=value, limit=bounds(rule), more_recalls=more)
        may_vary = rule.measure in (*VARIATION, DOMINANCE) and (missing <= 0 or by_session)
        if may_vary and result.status == FAIL and (few := _few(audit)):
            remedy = "limits from a sound window before this one: `lab canary limits LOG --out POLICY`"
            result = unmeasurable(rule, few, remedy, accepted=policy.unmeasured == ACCEPT)
        # Without remarks, lines that lack receipts share one reason and are printed once.
        remark = _remark(rule, audit, where) if missing <= 0 or by_session or result.status == FAIL else None
        yield replace(result, reason=f"{result.reason} ({remark})") if remark else result


def _few(audit: Mapping[str, Any]) -> str | None:
    """Return why answers cannot vary over a small store; None if they can, or if an audit does not say."""
    memories, most = audit["repeat"].get("memories"), audit.get("limits", {}).get("items_most") or 0
    if memories is None or memories >= FEW_RECALLS * most:
        return None
    return (
        f"all recalls together found {counted(memories, 'memory')}, fewer than {FEW_RECALLS} recalls of {most} items "
        "hold, so answers must repeat"
    )


def _remark(rule: Rule, audit: Mapping[str, Any], where: str) -> str | None:
    """Return what else a reader must know about a figure."""
    if rule.measure.startswith(BY_SESSION):
        return mixed_sessions(audit)
    if rule.measure != "damage.rate":
        return None
    # Overlapping logs are not a fault of the engine.
    duplicates = figure(audit, "damage.duplicates", where)
    remarks = [f"{duplicates:g} duplicates from overlapping logs are not counted"] if duplicates else []
    kinds = [(kind, count) for kind, count in audit["damage"].get("by_kind", {}).items() if kind != "duplicate"]
    kind, most = max(kinds, key=lambda entry: int(entry[1]), default=("", 0))
    if most:
        remarks.append(f"most frequent: {KINDS.get(kind, kind)}")
    return "; ".join(remarks) or None


def figure(audit: Mapping[str, Any], path: str, where: str) -> float | None:
    """Return the number at a dotted path, None for null; raise :class:`UnusableInput` if there is no number."""
    value: Any = audit
    for part in path.split("."):
        value = value.get(part, "") if isinstance(value, Mapping) else ""
    if value is None or (value == "" and path == DOMINANCE):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        known = list(_paths(audit, ""))
        near = difflib.get_close_matches(path, known, 3, 0.5) or known[:3]
        raise UnusableInput(f"{where}: the audit has no figure {path!r}; similar ones: {', '.join(near)}")
    if not abs(value) <= _EXACT:
        raise UnusableInput(
            f"{where}: the audit has {value} there, outside the range of an audit; audit the logs again"
        )
    return value


def _paths(value: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """Yield every dotted path to a number or a null."""
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _paths(inner, f"{prefix}{key}.")
        elif inner is None or (isinstance(inner, int | float) and not isinstance(inner, bool)):
            yield f"{prefix}{key}"


def _plain(rule: Rule, value: float) -> Line:
    violated = (rule.at_most is not None and value > rule.at_most) or (
        rule.at_least is not None and value < rule.at_least
    )
    why = f"{value:.4g}; the policy requires {bounds(rule)}"
    return line(rule, FAIL if violated else PASS, why, candidate=value, limit=bounds(rule))


def _share(rule: Rule, value: float | None, total: float | None, answered: float, policy: Policy, where: str) -> Line:
    if value is None or not total:
        return lacking(rule, f"the audit has no {UNITS.get(str(rule.of), rule.of)}")
    part = round(value * total)
    if not 0 <= part <= total or abs(part - value * total) > 1e-6 * max(1.0, total):
        raise UnusableInput(
            f"{where}: of: {value:.6g} is not a share of {total:g} {rule.of}; remove `of`, or name the right count"
        )
    low, high = share_bounds(part, total, policy.level)
    status = _status(rule, part, total, policy)
    conclusion = {PASS: "shown to hold", FAIL: "shown to be violated", INCONCLUSIVE: "not shown to hold"}[status]
    unit = UNITS.get(str(rule.of), rule.of)
    why = (
        f"{part} of {total:g} {unit}, {value:.4g} (one-sided {100 * (1 - policy.level):g} % bounds "
        f"{low:.4g} and {high:.4g}); the policy requires {bounds(rule)}: {conclusion}"
    )
    numbers: dict[str, Any] = {"candidate": value, "low": low, "high": high, "n": int(total), "limit": bounds(rule)}
    numbers["confidence"] = 1 - 2 * policy.level
    if status != INCONCLUSIVE:
        return line(rule, status, why, **numbers)
    more = _settles(rule, value, total, policy)
    if more is None:
        settles = f"no number of {unit} if the observed share holds; choose another limit"
        return line(rule, status, why, settles, **numbers)
    recalls = math.ceil(more * answered / total)
    settles = f"about {more:g} more {unit}, if the observed share holds"
    return line(rule, status, why, settles, more_recalls=recalls, **numbers)


def share_bounds(part: float, total: float, level: float) -> tuple[float, float]:
    """Return the lower and the upper one-sided Clopper-Pearson bound of a share, each at error level ``level``."""
    from scipy.special import betaincinv

    low = float(betaincinv(part, total - part + 1, level)) if part > 0 else 0.0
    high = float(betaincinv(part + 1, total - part, 1 - level)) if part < total else 1.0
    return low, high


def _status(rule: Rule, part: float, total: float, policy: Policy) -> str:
    """Return the status by the bounds; ``part`` may be fractional, for projections to more receipts."""
    low, high = share_bounds(part, total, policy.level)
    most = 1.0 if rule.at_most is None else rule.at_most
    least = 0.0 if rule.at_least is None else rule.at_least
    if high <= most and low >= least:
        return PASS
    low, high = share_bounds(part, total, policy.fail_level)
    return FAIL if low > most or high < least else INCONCLUSIVE


def _settles(rule: Rule, share: float, total: float, policy: Policy) -> float | None:
    """Return how many more would decide the rule if the observed share holds; None if no number would."""
    few, enough = total, total
    while _status(rule, share * enough, enough, policy) == INCONCLUSIVE:
        few, enough = enough, enough * 2
        if enough > _MOST:
            return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (
            (middle, enough) if _status(rule, share * middle, middle, policy) == INCONCLUSIVE else (few, middle)
        )
    return enough - total
