"""Receipts rules on means, judged after every session: GO and NO-GO at any time (CN-25).

The observation of a session is its share, from 0 to 1, and the figure is the mean of the shares over sessions. A rule
passes while the mean is shown to be within the limit (``pass_limit``, if it has one), with an error of at most
``level``. It fails once the mean is shown to be beyond the rule's limit, be it from the first session on or from a
later one; all such rules of a policy together err at most with ``fail_level``. A failure prevails over an earlier pass.
The tests are those of :mod:`lab.compare.anytime`, so one may look after every session and stop at any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import ceil
from statistics import fmean
from typing import Any, NamedTuple

from lab.base.formatting import counted
from lab.compare.anytime import bounds as bounds_of
from lab.compare.anytime import evidence, first_at, since, still_needed
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line, bounds, deciding, lacking, line
from lab.gate.policy import Policy, Rule

# Figures of an audit that are means over recalls, of which it has the sums of each session.
MEANS = frozenset(
    (
        *("errors.rate", "damage.rate", "recalls.empty_rate", "lanes.without_fts_share", "lanes.without_vec_share"),
        *("lanes.neither_share", "provider.rate", "stale.rate", "stale.vec_rate", "quota.overrun_rate"),
        *("quota.nice_floor_met", "budget.bare_rate", "repeat.rate", "must.share"),
    )
)


class Observed(NamedTuple):
    """The shares of the sessions that have one, and where these stand among all closed sessions."""

    shares: list[float]
    places: list[int]


def is_judged(rule: Rule, audit: Mapping[str, Any]) -> bool:
    """Return whether a rule is judged by sessions: on a mean, with one limit that is neither 0 nor 1."""
    if rule.kind != "receipts" or rule.measure not in MEANS or "sessions" not in audit:
        return False
    return (rule.at_most is None) != (rule.at_least is None) and 0 < _limit(rule) < 1


def _limit(rule: Rule) -> float:
    return (rule.at_least or 0.0) if rule.at_most is None else rule.at_most


def observed(rule: Rule, audit: Mapping[str, Any]) -> Observed:
    """Return the observations of a rule."""
    sums = audit["sessions"]["sums"].get(rule.measure, {"part": [], "of": []})
    pairs = enumerate(zip(sums["part"], sums["of"], strict=True))
    found = [(min(max(part / of, 0.0), 1.0), at) for at, (part, of) in pairs if of > 0]
    return Observed([share for share, _ in found], [at for _, at in found])


class Test(NamedTuple):
    """The two tests of a rule, with shares turned so that less is better."""

    shares: Sequence[float]
    limit: float
    pass_limit: float
    pass_at: float
    fail_at: float

    def passes(self) -> Any:
        """Return the evidence for a pass after each session."""
        return evidence(self.shares, self.pass_limit, above=False)

    def fails(self) -> Any:
        """Return the evidence for a failure after each session."""
        return evidence(self.shares, self.limit, above=True)


def test_of(policy: Policy, rule: Rule, shares: Sequence[float], rules: int) -> Test:
    """Return the tests of a rule, one of ``rules`` that decide together."""
    limit = _limit(rule)
    wider = limit if rule.pass_limit is None else rule.pass_limit
    if rule.at_most is None:
        shares, limit, wider = [1 - share for share in shares], 1 - limit, 1 - wider
    return Test(shares, limit, wider, 1 / policy.level, max(rules, 1) / policy.fail_level)


def deciding_rules(policy: Policy, audit: Mapping[str, Any]) -> int:
    """Return the number of a policy's critical rules that are judged by sessions, with data or without."""
    return sum(rule.critical and is_judged(rule, audit) for rule in policy.rules)


def judge_sessions(policy: Policy, rule: Rule, audit: Mapping[str, Any]) -> Line:
    """Return the line of a rule that :func:`is_judged` by sessions."""
    sessions = audit["sessions"]
    found = observed(rule, audit)
    if not found.shares:
        if sessions["closed"] and not sessions["open"]:
            return lacking(rule, "no session has a value for it")
        why = "no session with a value for it is over"
        return line(rule, INCONCLUSIVE, why, _to_close(sessions), limit=bounds(rule))
    rules = deciding_rules(policy, audit) if rule.critical else 1
    test = test_of(policy, rule, found.shares, rules)
    failed, passed = first_at(test.fails(), test.fail_at), since(test.passes(), test.pass_at)
    status = FAIL if failed else PASS if passed else INCONCLUSIVE
    place = failed or passed
    at = found.places[place - 1] if place else None
    usual = fmean(test.shares)
    to_pass = None if passed else still_needed(test.shares, usual, test.pass_limit, test.pass_at, above=False)
    to_fail = None if failed else still_needed(test.shares, 1.0, test.limit, test.fail_at, above=True)
    each = sessions["each"]
    sequence = {
        "sessions": sessions["closed"],
        "decided": None if at is None else (at + 1) * each,
        "time": None if at is None else sessions["ended"][at],
        "error": policy.fail_level if status == FAIL else policy.level,
        "rules": rules,
        "pass_limit": _limit(rule) if rule.pass_limit is None else rule.pass_limit,
        "to_pass": None if to_pass is None else to_pass * each,
        "to_fail": None if to_fail is None else to_fail * each,
        "worst": 1 if rule.at_least is None else 0,
    }
    low, high = _bounds(rule, test, policy, rules)
    conclusion = {
        PASS: f"shown to be {_shown(rule)}{_when(sequence)}",
        FAIL: f"shown to be violated{_when(sequence)}" + (f" over {counted(rules, 'rule')}" if rules > 1 else ""),
        INCONCLUSIVE: f"not shown to be {_shown(rule)}",
    }[status]
    mean = fmean(found.shares)
    why = (
        f"{mean:.4g}, the mean over {counted(len(found.shares) * each, 'session')} (bounds at every look {low:.4g} and "
        f"{high:.4g}); the policy requires {bounds(rule)}: {conclusion}"
    )
    numbers: dict[str, Any] = {"candidate": mean, "low": low, "high": high, "n": len(found.shares)}
    numbers |= {"confidence": 1 - 2 * policy.level, "limit": bounds(rule), "sequence": sequence}
    if status != INCONCLUSIVE:
        return line(rule, status, why, **numbers)
    if to_pass is None:
        settles = "no number of sessions like these that an operator would wait for; choose another limit"
        return line(rule, status, why, settles, **numbers)
    per_session = sum(sessions["recalls"]) / max(sessions["closed"], 1)
    settles = f"about {counted(sequence['to_pass'], 'more session')} like these"
    if sequence["to_fail"] is not None:
        settles += f"; violated if it is {sequence['worst']} in the next {counted(sequence['to_fail'], 'session')}"
    return line(rule, status, why, settles, more_recalls=ceil(sequence["to_pass"] * per_session), **numbers)


def _shown(rule: Rule) -> str:
    word = "at most" if rule.at_least is None else "at least"
    return f"{word} {_limit(rule) if rule.pass_limit is None else rule.pass_limit:g}"


def _when(sequence: Mapping[str, Any]) -> str:
    time = f" ({sequence['time']})" if sequence["time"] else ""
    return f" at session {sequence['decided']}{time}, with an error of at most {100 * sequence['error']:g} %"


def _to_close(sessions: Mapping[str, Any]) -> str:
    return (
        f"the end of {counted(sessions['open'], 'open session')}: a session counts once the log goes on for "
        f"{sessions['gap_minutes']} minutes without it"
    )


def _bounds(rule: Rule, test: Test, policy: Policy, rules: int) -> tuple[float, float]:
    """Return the bounds after the last session, in the direction of the figure."""
    found = bounds_of(test.shares, policy.fail_level / max(rules, 1), policy.level, [test.limit, test.pass_limit])
    low, high = float(found.low[-1]), float(found.high[-1])
    return (low, high) if rule.at_most is not None else (1 - high, 1 - low)


def course(line: Line, audit: Mapping[str, Any]) -> tuple[list[int], list[float], list[float], list[float]] | None:
    """Return the course of a rule on sessions: their numbers, the mean so far, and its lower and upper bounds.

    None if the line is not of such a rule, or no session has a value.
    """
    sequence = line.sequence
    found = observed(Rule("receipts", line.measure), audit) if sequence and "sessions" in audit else None
    if sequence is None or found is None or not found.shares:
        return None
    is_low = sequence["worst"] == 0
    shares = [1 - share if is_low else share for share in found.shares]
    limit = 1 - sequence["pass_limit"] if is_low else sequence["pass_limit"]
    low, high = bounds_of(shares, sequence["error"] / sequence["rules"], sequence["error"], [limit])
    means = [total / count for count, total in enumerate(accumulate(found.shares), 1)]
    numbers = [(place + 1) * audit["sessions"]["each"] for place in found.places]
    if is_low:
        return numbers, means, [1 - value for value in high], [1 - value for value in low]
    return numbers, means, [float(value) for value in low], [float(value) for value in high]


def decided_by(lines: Iterable[Line], status: str) -> Line | None:
    """Return the rule on sessions that decided a verdict, or that it waits for longest; None if there is none."""
    own = [(each, each.sequence) for each in deciding(lines) if each.sequence is not None and each.status == status]
    if status == INCONCLUSIVE:
        return max(own, key=lambda pair: pair[1]["to_pass"] or float("inf"), default=(None, None))[0]
    known = [pair for pair in own if pair[1]["decided"] is not None]
    choose = min if status == FAIL else max
    return choose(known, key=lambda pair: pair[1]["decided"], default=(None, None))[0]


def decision(lines: Sequence[Line], status: str) -> str | None:
    """Return in one sentence when a verdict was reached and by which rule, and what would reach the other one.

    None if sessions did not decide it.
    """
    own = [(each, each.sequence) for each in deciding(lines) if each.sequence is not None]
    by = decided_by(lines, status)
    if status == FAIL and by and by.sequence:
        return f"Decided{_when(by.sequence)}, by {by.measure}."
    ahead = [(sequence["to_fail"], each.measure, sequence["worst"]) for each, sequence in own if sequence["to_fail"]]
    soonest = min(ahead, default=None)
    other = ""
    if soonest is not None:
        other = f" NO-GO if {soonest[1]} is {soonest[2]} in the next {counted(soonest[0], 'session')}."
    if status == PASS and by and by.sequence:
        return f"Decided{_when(by.sequence)}, last by {by.measure}.{other}"
    waiting = [(sequence["to_pass"], each.measure) for each, sequence in own if each.status == INCONCLUSIVE]
    if status != INCONCLUSIVE or not waiting:
        return None
    never = [measure for more, measure in waiting if more is None]
    if never:
        return f"GO is not in sight: {', '.join(never)} lies too near its limit.{other}"
    more, measure = max(waiting)
    return f"GO after about {counted(more, 'more session')} like these, the last by {measure}.{other}"
