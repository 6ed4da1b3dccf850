"""Latency rules: limits on quantiles of a run's warm turns.

The first turn of each conversation is cold, the others are warm. A rule passes if the upper bound of the quantile is
within the limit, fails if the lower bound exceeds it, and is inconclusive otherwise. The bounds are distribution-free.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.base.errors import UnusableInput
from lab.base.formatting import counted
from lab.compare.paired import locate
from lab.gate.line import FAIL, GRAVITY, INCONCLUSIVE, PASS, Line, lacking, line
from lab.gate.policy import Policy, Rule
from lab.measures.quantiles import Quantile, least_n, quantile
from lab.measures.turn_latency import warm_times
from lab.runs.directory import RunDirectory

# Durations of warm turns in milliseconds, by stage.
Times = Mapping[str, Sequence[float]]


def judge_latency(
    policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None
) -> Iterator[Line]:
    """Yield one line per rule. Raises :class:`UnusableInput` for a stage that no turn has."""
    mine, arm = locate(run, policy.candidate)
    times = warm_times(mine).get(arm, {})
    base: Times = {}
    if any(rule.at_most_ratio is not None for rule in rules):
        other, baseline = locate(against or run, arm if against else policy.baseline)
        base = warm_times(other).get(baseline, {})
    for rule in rules:
        if times and rule.stage not in times:
            raise UnusableInput(f"latency {rule.measure}: no warm turn has this stage; stages: {', '.join(times)}")
        yield _line(rule, times.get(rule.stage, ()), base.get(rule.stage, ()), policy)


def _line(rule: Rule, times: Sequence[float], base: Sequence[float], policy: Policy) -> Line:
    if not times:
        return lacking(rule, "the run has no timings of warm turns")
    judged: list[tuple[str, str]] = []
    result = _quantile(times, rule, policy.level)
    if rule.at_most_ms is not None and result is not None:
        status = _status(result, rule.at_most_ms)
        judged.append((status, f"{_shown(result, 'ms')}; the policy requires at most {rule.at_most_ms:g} ms"))
    ratio = _ratio(times, base, rule, policy.level / 2)
    if rule.at_most_ratio is not None and ratio is not None:
        status = _status(ratio, rule.at_most_ratio)
        judged.append(
            (status, f"{_shown(ratio, 'times the baseline')}; the policy requires at most {rule.at_most_ratio:g}")
        )
    limits = ((rule.at_most_ms, "ms"), (rule.at_most_ratio, "x"))
    limit = " and ".join(f"at most {value:g} {unit}" for value, unit in limits if value is not None)
    limits_set = sum(value is not None for value, _ in limits)
    numbers = {"n": len(times), "limit": limit, "candidate": result.value if result else None}
    problem = settles = None
    if len(judged) < limits_set:
        level = policy.level / 2 if rule.at_most_ratio is not None else policy.level
        need = least_n(rule.quantile, 1 - 2 * level)
        fewest = len(times) if rule.at_most_ratio is None else min(len(times), len(base))
        if fewest < need:
            problem = f"{fewest} warm turns; a bound on this quantile needs {need}"
            settles = f"{counted(need - fewest, 'more warm turn')} in each arm"
        else:
            problem = "the baseline's time is too short to measure, so there is no ratio"
            settles = "a rule on a slower stage, or a limit in milliseconds"
    # One violated limit fails the rule, even if the other limit cannot be judged.
    if problem and FAIL not in {status for status, _ in judged}:
        return line(rule, INCONCLUSIVE, problem, settles, **numbers)
    status = min((status for status, _ in judged), key=GRAVITY.index)
    conclusion = {PASS: "shown to hold", FAIL: "shown to be violated", INCONCLUSIVE: "not shown to hold"}[status]
    words = "; ".join([text for _, text in judged] + ([problem] if problem else []))
    why = f"{words} (over {len(times)} warm turns): {conclusion}"
    settles = "more warm turns, or a less busy machine" if status == INCONCLUSIVE else None
    shown = result if rule.at_most_ms is not None else ratio
    bounds = {"low": shown.low, "high": shown.high, "confidence": 1 - 2 * policy.level} if shown else {}
    return line(rule, status, why, settles, **numbers, **bounds)


def _quantile(times: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    return quantile(times, rule.quantile, 1 - 2 * level) if times else None


def _ratio(times: Sequence[float], base: Sequence[float], rule: Rule, level: float) -> Quantile | None:
    """Return the quantile divided by the baseline's; its bounds combine both, each at half the level (Bonferroni)."""
    mine, theirs = _quantile(times, rule, level), _quantile(base, rule, level)
    if mine is None or theirs is None or theirs.low <= 0:
        return None
    return Quantile(mine.value / theirs.value, mine.low / theirs.high, mine.high / theirs.low)


def _status(value: Quantile, most: float) -> str:
    return PASS if value.high <= most else FAIL if value.low > most else INCONCLUSIVE


def _shown(value: Quantile, unit: str) -> str:
    return f"{value.value:.3g} {unit} (bounds {value.low:.3g} and {value.high:.3g})"
