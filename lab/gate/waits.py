"""Wait rules: what the recalls of a live engine took, beside a control (CN-24).

An audit has no times of recalls, but bounds of their quantiles, with 95 % intervals. The upper bounds are times until
the receipt, so both windows hold what the host needs itself. Were recalls slower by no more than the limit allows, and
the host by no more than skipped recalls show, these times were, too: a rule fails if they are shown not to be. It
passes if they are shown to be within the limit, the host's part included. Each of the two intervals errs on one side
with 2.5 %, so both together with 5 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.base.shape import expect, field
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, Line, lacking, line
from lab.gate.policy import Policy, Rule
from lab.measures.latency import LEVEL, Quantile, least_n

NO_CONTROL = "needs a control", "add --control AUDIT2"
NO_TIMES, ADD_TIMES = "no bounds of what recalls took", "`lab canary audit LOG --home HOME --out AUDIT` adds them"
# What the host needs itself is unknown.
NO_HOST = "not shown to hold, and too few skipped recalls to show more", "19 or more skipped recalls in each window"


def judge_waits(
    policy: Policy, rules: Sequence[Rule], audit: Mapping[str, Any], control: Mapping[str, Any] | None
) -> Iterator[Line]:
    """Yield one line per rule. Raises :class:`UnusableInput` for a level that the audits' intervals do not have."""
    if rules and min(policy.level, policy.fail_level) < (1 - LEVEL) * 0.999:
        raise UnusableInput(f"{policy.where}: wait: an audit's intervals allow no level below {1 - LEVEL:.2g}")
    for rule in rules:
        yield _line(rule, audit, control)


def _line(rule: Rule, audit: Mapping[str, Any], control: Mapping[str, Any] | None) -> Line:
    if control is None:
        return lacking(rule, *NO_CONTROL)
    for one, where in ((audit, "the audit"), (control, "the control")):
        if "latency" not in one:
            return lacking(rule, f"{where} has {NO_TIMES}", ADD_TIMES)
    (low, high), (base_low, base) = (_bounds(one, rule.quantile) for one in (audit, control))
    ratio, more = rule.at_most_ratio or 1.0, rule.at_most_more_ms or 0.0
    limit = f"at most {ratio:g} times the control's and {more:g} ms more"
    count, other = (int(one["latency"]["recalls"]) for one in (audit, control))
    if high is None or base is None:
        need = least_n(rule.quantile)
        why = f"bounds of {min(count, other)} recalls; an interval of this quantile needs {need}"
        more_recalls = counted(need - min(count, other), "more recall")
        return line(rule, INCONCLUSIVE, why, more_recalls, n=count, limit=limit)
    own, base_own = (one["latency"].get("host_ms") for one in (audit, control))
    # A ratio above 1 allows the recall more time, and not the host: its own part is left out, or all if it is unknown.
    least = ratio * base.low + more - max(0.0, ratio - 1) * (base.low if base_own is None else min(base_own, base.low))
    grown = None if own is None or base_own is None else max(0.0, own - base_own)
    status = PASS if high.high <= least else INCONCLUSIVE
    if status == INCONCLUSIVE and grown is None:
        return lacking(rule, *NO_HOST)
    if status == INCONCLUSIVE and grown is not None and high.low > ratio * base.high + more + grown:
        status = FAIL
    conclusion = {PASS: "shown to hold", FAIL: "shown to be violated", INCONCLUSIVE: "not shown to hold"}[status]
    itself = f"; the host itself needs {grown:g} ms more" if grown else ""
    why = (
        f"{_between(low, high)} over {counted(count, 'recall')}, in the control {_between(base_low, base)} over "
        f"{other}{itself}; the policy requires {limit}: {conclusion}"
    )
    numbers = {"candidate": high.value, "low": high.low, "high": high.high}
    settles = "more recalls in both windows" if status == INCONCLUSIVE else None
    return line(rule, status, why, settles, **numbers, n=count, limit=limit, confidence=LEVEL)


def _between(low: Quantile | None, high: Quantile) -> str:
    return (
        f"between {low.value if low else 0:.0f} and {high.value:.0f} ms (upper bound {high.low:.0f} to {high.high:.0f})"
    )


def _bounds(audit: Mapping[str, Any], share: float) -> tuple[Quantile | None, Quantile | None]:
    """Return the lower and the upper bound of a quantile; raise :class:`UnusableInput` for a damaged audit."""
    where = f"audit: latency.p{100 * share:g}"
    found = field(expect(audit["latency"], dict, "audit: latency"), f"p{100 * share:g}", dict, "audit: latency")
    return _quantile(found.get("low"), f"{where}.low"), _quantile(found.get("high"), f"{where}.high")


def _quantile(value: Any, where: str) -> Quantile | None:
    if value is None:
        return None
    known = expect(value, dict, where)
    return Quantile(*(expect(known.get(name), int | float, f"{where}.{name}", "a number") for name in Quantile._fields))
