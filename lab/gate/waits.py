"""Wait rules: what the recalls of a live engine took, beside a control (CN-24).

An audit has no times of recalls, but bounds of their quantiles, with 95 % intervals. A rule fails if the lower bound is
shown to be above the limit that follows from the upper bound in the control: a host that became slower by itself does
not fail it. It passes if the upper bounds are shown to be within the limit. They are times until the receipt, so both
hold what the host needs itself: were recalls slower by the limit, these times were, too. Each of the two intervals errs
on one side with 2.5 %, so both together with 5 %.
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
# Below it, recalls that the engine skips are too few for a lower bound.
NO_LOWER = "not shown to hold, and too few skipped recalls to show that it is violated", "19 or more skipped recalls"


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
    # A ratio above 1 allows the recall more time, and not the host: its own part is left out, or all if it is unknown.
    own = control["latency"].get("host_ms")
    least = ratio * base.low + more - max(0.0, ratio - 1) * (base.low if own is None else min(own, base.low))
    most = ratio * base.high + more
    status = PASS if high.high <= least else FAIL if low is not None and low.low > most else INCONCLUSIVE
    if status == INCONCLUSIVE and low is None:
        return lacking(rule, *NO_LOWER)
    conclusion = {PASS: "shown to hold", FAIL: "shown to be violated", INCONCLUSIVE: "not shown to hold"}[status]
    why = (
        f"{_between(low, high)} over {counted(count, 'recall')}, in the control {_between(base_low, base)} over "
        f"{other}; the policy requires {limit}: {conclusion}"
    )
    # The bound that decided.
    decided = low if status == FAIL and low else high
    numbers = {"candidate": decided.value, "low": low.low if low else 0.0, "high": high.high}
    settles = "more recalls in both windows" if status == INCONCLUSIVE else None
    return line(rule, status, why, settles, **numbers, n=count, limit=limit, confidence=LEVEL)


def _between(low: Quantile | None, high: Quantile) -> str:
    least = f"{low.value:.0f} ({low.low:.0f} or more)" if low else "0"
    return f"between {least} and {high.value:.0f} ms ({high.low:.0f} to {high.high:.0f})"


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
