"""Latency rules: quantiles of a run's warm turns, by bounds that assume no distribution.

A rule passes where the upper bound of the quantile lies within, fails where the lower bound lies beyond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.compare.paired import locate
from lab.errors import UnusableInput
from lab.formatting import counted
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, Line, lacking, line
from lab.gate.policy import Policy, Rule
from lab.latency.quantiles import Quantile, least_n, quantile
from lab.latency.turns import warm_times
from lab.runs.directory import RunDirectory

# Milliseconds of warm turns, by stage.
Times = Mapping[str, Sequence[float]]


def judge_latency(
    policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None
) -> Iterator[Line]:
    """A line a rule. A stage that no turn has is :class:`UnusableInput`."""
    mine, arm = locate(run, policy.candidate)
    times = warm_times(mine).get(arm, {})
    base: Times = {}
    if any(rule.at_most_ratio is not None for rule in rules):
        other, baseline = locate(against or run, arm if against else policy.baseline)
        base = warm_times(other).get(baseline, {})
    for rule in rules:
        if times and rule.stage not in times:
            raise UnusableInput(f"latency {rule.measure}: no warm turn has this stage; there are: {', '.join(times)}")
        yield _line(rule, times.get(rule.stage, ()), base.get(rule.stage, ()), policy)


def _line(rule: Rule, times: Sequence[float], base: Sequence[float], policy: Policy) -> Line:
    if not times:
        return lacking(rule, "the run has no timings of warm turns")
    judged: list[tuple[str, str]] = []
    own = _quantile(times, rule, policy.level)
    if rule.at_most_ms is not None and own is not None:
        status = _status(own, rule.at_most_ms)
        judged.append((status, f"{_shown(own, 'ms')}, and the policy wants at most {rule.at_most_ms:g} ms"))
    ratio = _ratio(times, base, rule, policy.level / 2)
    if rule.at_most_ratio is not None and ratio is not None:
        status = _status(ratio, rule.at_most_ratio)
        judged.append(
            (status, f"{_shown(ratio, 'times the baseline')}, and the policy wants at most {rule.at_most_ratio:g}")
        )
    limits = ((rule.at_most_ms, "ms"), (rule.at_most_ratio, "x"))
    limit = " and ".join(f"at most {value:g} {unit}" for value, unit in limits if value is not None)
    asked = sum(value is not None for value, _ in limits)
    numbers = {"n": len(times), "limit": limit, "candidate": own.value if own else None}
    lacks = settles = None
    if len(judged) < asked:
        level = policy.level / 2 if rule.at_most_ratio is not None else policy.level
        need = least_n(rule.quantile, 1 - 2 * level)
        fewest = len(times) if rule.at_most_ratio is None else min(len(times), len(base))
        if fewest < need:
            lacks = f"{fewest} warm turns, and a bound of this quantile needs {need}"
            settles = f"{counted(need - fewest, 'more warm turn')} in each arm"
        else:
            lacks = "the baseline took no time that could be measured, and a ratio needs some"
            settles = "a stage that takes time, or a bound in milliseconds"
    # What is shown to be beyond one bound is so whatever can be said of the other.
    if lacks and FAIL not in {one for one, _ in judged}:
        return line(rule, INCONCLUSIVE, lacks, settles, **numbers)
    status = min((one for one, _ in judged), key=GRAVITY.index)
    told = {PASS: "shown to be within", FAIL: "shown to be beyond", INCONCLUSIVE: "not shown to be within"}[status]
    words = "; ".join([said for _, said in judged] + ([lacks] if lacks else []))
    why = f"{words} (over {len(times)} warm turns): {told}"
    settles = "more warm turns, or a machine that is quieter" if status == INCONCLUSIVE else None
    shown = own if rule.at_most_ms is not None else ratio
    bounds = {"low": shown.low, "high": shown.high, "confidence": 1 - 2 * policy.level} if shown else {}
    return line(rule, status, why, settles, **numbers, **bounds)


def _quantile(times: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    return quantile(times, rule.quantile, 1 - 2 * level) if times else None


def _ratio(times: Sequence[float], base: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    """The quantile over the baseline's; its bounds are those of both, each at half the level (Bonferroni)."""
    mine, theirs = _quantile(times, rule, level), _quantile(base, rule, level)
    if mine is None or theirs is None or theirs.low <= 0:
        return None
    return Quantile(mine.value / theirs.value, mine.low / theirs.high, mine.high / theirs.low)


def _status(found: Quantile, most: float) -> str:
    return PASS if found.high <= most else FAIL if found.low > most else INCONCLUSIVE


def _shown(one: Quantile, unit: str) -> str:
    return f"{one.value:.3g} {unit} (bounds {one.low:.3g} and {one.high:.3g})"
