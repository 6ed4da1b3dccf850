"""Receipts rules: figures of an audit of live receipts (``lab receipts audit``) within bounds.

A figure that is a share of a count (``of``) passes where its exact one-sided bound (Clopper and Pearson 1934) lies
within the limit, fails where the opposite bound lies beyond it, and is inconclusive otherwise. Recalls are taken as
independent of one another. A figure without ``of`` is held against its limit as it is.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.canary.audit import SCHEMA
from lab.canary.damage import KINDS
from lab.canary.notes import BY_SESSION, mixed_sessions
from lab.errors import UnusableInput
from lab.files import read_json
from lab.formatting import counted
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line, bounds, lacking, line
from lab.gate.policy import Policy, Rule
from lab.shape import expect, field, json_type, optional

ANSWERED = "recalls.answered"
# What the counts of an audit count.
UNITS = {
    "errors.attempts": "recalls",
    "damage.of": "lines of the engine",
    ANSWERED: "answered recalls",
    "recalls.receipts": "receipts",
    "lanes.items": "items",
    "lanes.with_hits": "recalls that found something",
    "stale.recalls": "recalls that found something",
    "stale.vec_recalls": "recalls whose vector lane found something",
    "scope.items": "items",
    "quota.recalls": "recalls with quotas",
    "quota.nice_there": "recalls with nice candidates",
    "budget.recalls": "recalls with a budget",
}
_MOST = 1 << 40
_EXACT = 1 << 53
_MAKE = "make one: lab receipts audit {} --out FILE"


def read_audit(path: Path) -> dict[str, Any]:
    """The audit that ``lab receipts audit --out`` wrote; anything else is :class:`UnusableInput`."""
    try:
        value = read_json(path)
    except UnusableInput as error:
        if not path.is_file():
            raise
        raise UnusableInput(f"{error}; an audit of receipts is wanted, {_MAKE.format(path)}") from None
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        found = f"schema {value.get('schema')!r}" if isinstance(value, dict) else json_type(value)
        raise UnusableInput(f"{path}: is no audit of receipts ({found}, not {SCHEMA}); {_MAKE.format('LOG')}")
    if "of" not in field(value, "damage", dict, str(path)):
        raise UnusableInput(f"{path}: damage: does not say of how many lines; audit the logs again, with this version")
    if "stale" not in value:
        raise UnusableInput(f"{path}: is of an earlier version; audit the logs again, with this version")
    recalls = field(value, "recalls", dict, str(path))
    for name in ("receipts", "answered"):
        field(recalls, name, int, f"{path}: recalls")
    # Those that are asked for where logs tell nothing.
    field(value, "lines", int, str(path))
    field(field(value, "errors", dict, str(path)), "attempts", int, f"{path}: errors")
    field(value["damage"], "lines", int, f"{path}: damage")
    for one in field(value, "files", list, str(path)):
        field(one, "file", str, f"{path}: files")
    # Those that remarks are made of.
    by = field(field(value, "repeat", dict, str(path)), "by", dict, f"{path}: repeat")
    for name in ("scope", "session"):
        field(by, name, int, f"{path}: repeat.by")
    for name, count in optional(value["damage"], "by_kind", dict, {}, f"{path}: damage").items():
        expect(count, int, f"{path}: damage.by_kind.{name}")
    _require_exact(value, str(path))
    return value


def _require_exact(value: Any, where: str) -> None:
    """Refuse numbers that no count of lines can come to: past 2**53 a float is not exact."""
    if isinstance(value, int | float) and not abs(value) <= _EXACT:
        raise UnusableInput(f"{where}: holds a number that no audit has; audit the logs again")
    for key, one in value.items() if isinstance(value, dict) else ():
        _require_exact(one, f"{where}: {key}" if where.count(": ") < 1 else f"{where}.{key}")


def judge_receipts(policy: Policy, rules: Sequence[Rule], audit: Mapping[str, Any]) -> Iterator[Line]:
    """A line a rule. A path that the audit does not have is :class:`UnusableInput`; null is a lack of data."""
    answered = figure(audit, ANSWERED, f"{policy.where}: receipts") or 0
    few = policy.minimum_receipts - answered
    for rule in rules:
        where = f"{policy.where}: receipts {rule.measure}"
        value = figure(audit, rule.measure, where)
        if rule.of is None:
            whole = None
            found = lacking(rule, "the audit has no figure of it") if value is None else _plain(rule, value)
        else:
            whole = figure(audit, rule.of, f"{where}: of")
            found = _share(rule, value, whole, answered, policy, where)
        # One case of what must never be is one too many, and what is shown to be beyond is so however few there are.
        shown = rule.of is not None or rule.at_most == 0
        if few > 0 and value is not None and not (found.status == FAIL and shown):
            why = f"{answered:g} answered recalls, and the policy decides over {policy.minimum_receipts} or more"
            more = max(int(few), found.more_recalls or 0)
            told = counted(math.ceil(few), "more answered recall")
            found = line(rule, INCONCLUSIVE, why, told, candidate=value, limit=bounds(rule), more_recalls=more)
        # Inconclusive lines share one reason, so that they are printed once; a remark would tell them apart.
        remark = _remark(rule, audit, where) if few <= 0 or found.status == FAIL else None
        yield replace(found, reason=f"{found.reason} ({remark})") if remark else found


def _remark(rule: Rule, audit: Mapping[str, Any], where: str) -> str | None:
    """What to know of a figure, beside its numbers."""
    if rule.measure.startswith(BY_SESSION):
        return mixed_sessions(audit)
    if rule.measure != "damage.rate":
        return None
    # That logs overlap is not what the engine did wrong.
    duplicates = figure(audit, "damage.duplicates", where)
    said = [f"{duplicates:g} duplicates, of logs that overlap, do not count"] if duplicates else []
    kinds = [(kind, count) for kind, count in audit["damage"].get("by_kind", {}).items() if kind != "duplicate"]
    kind, most = max(kinds, key=lambda one: int(one[1]), default=("", 0))
    if most:
        said.append(f"most often: {KINDS.get(kind, kind)}")
    return "; ".join(said) or None


def figure(audit: Mapping[str, Any], path: str, where: str) -> float | None:
    """The number at a dotted path; None where it is null."""
    found: Any = audit
    for part in path.split("."):
        found = found.get(part, "") if isinstance(found, Mapping) else ""
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int | float):
        known = list(_paths(audit, ""))
        near = difflib.get_close_matches(path, known, 3, 0.5) or known[:3]
        raise UnusableInput(f"{where}: the audit has no figure {path!r}; near ones: {', '.join(near)}")
    if not abs(found) <= _EXACT:
        raise UnusableInput(f"{where}: the audit has {found} there, which is no number; audit the logs again")
    return found


def _paths(value: Mapping[str, Any], before: str) -> Iterator[str]:
    """Every path to a number, or to a null in its place."""
    for key, one in value.items():
        if isinstance(one, Mapping):
            yield from _paths(one, f"{before}{key}.")
        elif one is None or (isinstance(one, int | float) and not isinstance(one, bool)):
            yield f"{before}{key}"


def _plain(rule: Rule, value: float) -> Line:
    broken = (rule.at_most is not None and value > rule.at_most) or (
        rule.at_least is not None and value < rule.at_least
    )
    why = f"{value:.4g}, and the policy wants {bounds(rule)}"
    return line(rule, FAIL if broken else PASS, why, candidate=value, limit=bounds(rule))


def _share(rule: Rule, value: float | None, whole: float | None, answered: float, policy: Policy, where: str) -> Line:
    if value is None or not whole:
        return lacking(rule, f"the audit has no {UNITS.get(str(rule.of), rule.of)}")
    part = round(value * whole)
    if not 0 <= part <= whole or abs(part - value * whole) > 1e-6 * max(1.0, whole):
        raise UnusableInput(
            f"{where}: of: {value:.6g} is no share of {whole:g} {rule.of}; leave `of` out, or name what it is"
        )
    low, high = share_bounds(part, whole, policy.level)
    status = _status(rule, part, whole, policy)
    told = {PASS: "shown to be within", FAIL: "shown to be beyond", INCONCLUSIVE: "not shown to be within"}[status]
    unit = UNITS.get(str(rule.of), rule.of)
    why = (
        f"{part} of {whole:g} {unit}, {value:.4g} (one-sided {100 * (1 - policy.level):g} % bounds "
        f"{low:.4g} and {high:.4g}), and the policy wants {bounds(rule)}: {told}"
    )
    numbers: dict[str, Any] = {"candidate": value, "low": low, "high": high, "n": int(whole), "limit": bounds(rule)}
    numbers["confidence"] = 1 - 2 * policy.level
    if status != INCONCLUSIVE:
        return line(rule, status, why, **numbers)
    more = _settles(rule, value, whole, policy)
    if more is None:
        settles = f"no number of {unit}, were the share just as it seems; choose another limit"
        return line(rule, status, why, settles, **numbers)
    recalls = math.ceil(more * answered / whole)
    settles = f"about {more:g} more {unit}, were the share as it seems"
    return line(rule, status, why, settles, more_recalls=recalls, **numbers)


def share_bounds(part: float, whole: float, level: float) -> tuple[float, float]:
    """The lower and the upper one-sided bound of a share, each erring with ``level`` at most."""
    from scipy.special import betaincinv

    low = float(betaincinv(part, whole - part + 1, level)) if part > 0 else 0.0
    high = float(betaincinv(part + 1, whole - part, 1 - level)) if part < whole else 1.0
    return low, high


def _status(rule: Rule, part: float, whole: float, policy: Policy) -> str:
    """By the bounds; ``part`` may have a fraction, where it is asked what more receipts would say."""
    low, high = share_bounds(part, whole, policy.level)
    most = 1.0 if rule.at_most is None else rule.at_most
    least = 0.0 if rule.at_least is None else rule.at_least
    if high <= most and low >= least:
        return PASS
    low, high = share_bounds(part, whole, policy.fail_level)
    return FAIL if low > most or high < least else INCONCLUSIVE


def _settles(rule: Rule, share: float, whole: float, policy: Policy) -> float | None:
    """How many more would settle it, were the share as it seems; None where no number would."""
    few, enough = whole, whole
    while _status(rule, share * enough, enough, policy) == INCONCLUSIVE:
        few, enough = enough, enough * 2
        if enough > _MOST:
            return None
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (
            (middle, enough) if _status(rule, share * middle, middle, policy) == INCONCLUSIVE else (few, middle)
        )
    return enough - whole
