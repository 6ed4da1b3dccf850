"""Guard, improve and limit rules: judge a scored run, the candidate alone or against the baseline.

A guard is a non-inferiority test. It passes if the interval of the difference lies above minus the margin; the interval
is clustered by conversation and one-sided at the policy's level. A guard fails if the interval at ``fail_level`` lies
below minus the margin and a one-sided sign-flip test by conversation agrees, Holm-corrected over all critical guard and
improve rules with enough conversations. Otherwise it is inconclusive. All guards must pass, so passing needs no
correction. To pass, an improve rule also needs a sign-flip test, Holm-corrected over the improve rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lab.compare.comparable import require_comparable
from lab.compare.equal import equal_in
from lab.compare.paired import Pairs, by_conversation, locate, pairs_by_measure
from lab.compare.statistics import Estimate, clustered, holm, sign_flip, t_quantile
from lab.errors import UnusableInput
from lab.formatting import counted, number, signed
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, SKIPPED, Line, bounds, lacking, line
from lab.gate.policy import Policy, Rule
from lab.measures.score import MAX_SLICE_VALUES, more_measures, score_run
from lab.runs.directory import RunDirectory
from lab.runs.gold import read_gold

KINDS = ("guard", "improve", "limit")
Groups = Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of a scored run that the rules are judged by.

    ``candidate`` holds the candidate's values and ``pairs`` the paired values of both arms, by measure; ``slices`` the
    slices of each probe; ``depth`` the length of the shorter ranking of the two arms.
    """

    candidate: Mapping[str, Sequence[float]]
    pairs: Mapping[str, Pairs]
    slices: Mapping[str, Mapping[str, str]]
    depth: float = math.inf

    def why_nothing(self, measure: str) -> str:
        """Return why a measure has no values."""
        cutoff = measure.rpartition("@")[2]
        if cutoff.isdigit() and int(cutoff) > self.depth:
            return f"the arm returns at most {self.depth} items, so there is no value at {cutoff}; use @{self.depth}"
        if not self.slices:
            return "not measured; measures of relevance need a golden set (`lab golden pool` starts one)"
        return "not measured"


class Compared(NamedTuple):
    """A measure in both arms: means, differences by conversation, and their estimate."""

    baseline: float
    candidate: float
    groups: Groups
    estimate: Estimate

    @property
    def n(self) -> int:
        """Return the number of paired values."""
        return sum(map(len, self.groups.values()))

    def sums(self, sign: float, shift: float) -> list[float]:
        """Return, by conversation, the sum of ``sign * difference + shift``."""
        return [sign * math.fsum(values) + shift * len(values) for values in self.groups.values()]


def evidence(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None) -> Evidence:
    """Score a run and what it is compared with: its baseline arm, or the candidate's arm in the run ``against``.

    Raises :class:`NotComparable` if the two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an unknown arm.
    """
    mine, arm = locate(run, policy.candidate)
    measures = tuple(dict.fromkeys(rule.measure for rule in rules))
    scores = score_run(mine, more_measures(measures, mine.max_items.values()))
    pairs: dict[str, Pairs] = {}
    depth = mine.depths[arm]
    if any(map(_is_difference, rules)):
        theirs, base = locate(against or run, arm if against else policy.baseline)
        if (theirs.path.resolve(), base) == (mine.path.resolve(), arm):
            raise UnusableInput(f"baseline and candidate are both {arm!r} of {run.path}; name two different arms")
        require_comparable(theirs, mine)
        others = scores if theirs is mine else score_run(theirs, more_measures(measures, mine.max_items.values()))
        depth = min(depth, theirs.depths[base])
        pairs = {pair.measure: pair for pair in pairs_by_measure(others, base, scores, arm, equal_in(mine))[0]}
    slices = (
        {probe: gold.slices for probe, gold in read_gold(mine).items()} if any(rule.slices for rule in rules) else {}
    )
    values = {name: series.value for name, series in scores.of_arm(arm).items()}
    return Evidence(values, pairs, slices, depth)


def compared(pairs: Pairs) -> Compared:
    """Return the means of both arms, the differences by conversation, and their estimate."""
    groups = by_conversation(pairs)
    n = len(pairs.at)
    return Compared(sum(pairs.baseline) / n, sum(pairs.candidate) / n, groups, clustered(groups))


def judge_compared(policy: Policy, rules: Sequence[Rule], data: Evidence) -> Iterator[Line]:
    """Yield one line per rule, each followed by the lines of its slices."""
    comparisons = {
        rule: compared(data.pairs[rule.measure])
        for rule in rules
        if _is_difference(rule) and rule.measure in data.pairs
    }
    decisive = {rule: result for rule, result in comparisons.items() if rule.critical and _has_enough(result, policy)}
    failing = {rule: result for rule, result in decisive.items() if _is_beyond(rule, result, policy)}
    worse = _holm(failing, len(decisive), -1.0)
    claims = {rule: result for rule, result in decisive.items() if rule.kind == "improve"}
    better = _holm(claims, len(claims), 1.0)
    for rule in rules:
        if rule.kind == "limit":
            values = data.candidate.get(rule.measure)
            yield _limit(rule, values) if values else lacking(rule, data.why_nothing(rule.measure))
        elif rule in comparisons:
            families = (len(decisive), len(claims))
            yield _difference(rule, comparisons[rule], policy, worse.get(rule), better.get(rule), families)
        else:
            yield lacking(rule, data.why_nothing(rule.measure))
        yield from _slices(rule, data, policy)


def _is_difference(rule: Rule) -> bool:
    """Return whether a rule judges a difference of two arms."""
    return rule.kind in ("guard", "improve")


def _holm(results: Mapping[Rule, Compared], family: int, side: float) -> dict[Rule, float]:
    """Return Holm-adjusted p-values that the candidate is better (``side`` 1) or worse (-1) than the rule requires.

    Members of the family that are not in ``results`` count with p = 1.
    """
    p_values = {f"{index:04}": _p(rule, result, side) for index, (rule, result) in enumerate(results.items())}
    p_values |= {f"other {index}": 1.0 for index in range(family - len(results))}
    adjusted = holm(p_values)
    return {rule: adjusted[f"{index:04}"] for index, rule in enumerate(results)}


def _p(rule: Rule, result: Compared, side: float) -> float:
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign_flip([side * value for value in result.sums(sign, -_threshold(rule))], one_sided=True)


def _threshold(rule: Rule) -> float:
    """Return the threshold that the difference, oriented so that more is better, must exceed."""
    return -rule.margin if rule.kind == "guard" else rule.by


def _has_enough(result: Compared, policy: Policy) -> bool:
    return len(result.groups) >= policy.minimum_conversations and result.estimate.standard_error is not None


def _half_width(result: Compared, level: float) -> float:
    return t_quantile(1 - level, len(result.groups) - 1) * (result.estimate.standard_error or 0.0)


def _is_beyond(rule: Rule, result: Compared, policy: Policy) -> bool:
    """Return whether the whole interval at ``fail_level`` lies on the wrong side of the threshold."""
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign * result.estimate.mean + _half_width(result, policy.fail_level) < _threshold(rule)


def _difference(
    rule: Rule,
    result: Compared,
    policy: Policy,
    worse: float | None = None,
    better: float | None = None,
    families: tuple[int, int] = (1, 1),
) -> Line:
    """Return the line of a guard or an improve rule.

    ``worse`` and ``better`` are the rule's Holm-adjusted p-values, None if it is outside that family of tests;
    ``families`` are the sizes of the two families.
    """
    numbers = {
        "baseline": result.baseline,
        "candidate": result.candidate,
        "difference": result.estimate.mean,
        "conversations": len(result.groups),
        "n": result.n,
    }
    if not _has_enough(result, policy):
        least = policy.minimum_conversations
        reason = f"{counted(len(result.groups), 'conversation')}; the policy requires at least {least}"
        return line(
            rule, INCONCLUSIVE, reason, counted(max(least - len(result.groups), 1), "more conversation"), **numbers
        )
    sign, threshold, half_width = (
        (-1.0 if rule.direction == "lower" else 1.0),
        _threshold(rule),
        _half_width(result, policy.level),
    )
    oriented = sign * result.estimate.mean
    low, high, confidence = result.estimate.mean - half_width, result.estimate.mean + half_width, 1 - 2 * policy.level
    if rule.kind == "guard":
        name = f"worse by more than {rule.margin:g}"
        conclusion = {PASS: f"shown not to be {name}", FAIL: f"shown to be {name}", INCONCLUSIVE: f"may be {name}"}
    else:
        name = f"better by more than {rule.by:g}"
        conclusion = {
            PASS: f"shown to be {name}",
            FAIL: f"shown not to be {name}",
            INCONCLUSIVE: f"not shown to be {name}",
        }
    # An advisory rule is in no family: its interval decides its status.
    shown = oriented - half_width >= threshold if rule.kind == "guard" else oriented - half_width > threshold
    if shown and (better is None or better <= policy.level):
        status = PASS
    elif _is_beyond(rule, result, policy) and (not rule.critical or (worse is not None and worse <= policy.fail_level)):
        status = FAIL
    else:
        status = INCONCLUSIVE
    reason = (
        f"{number(result.candidate)} against {number(result.baseline)}, difference {signed(result.estimate.mean)} "
        f"({100 * confidence:g} % interval {signed(low)} to {signed(high)} over {len(result.groups)} "
        f"conversations): {conclusion[status]}"
    )
    settles = None
    if status == INCONCLUSIVE:
        if oriented + half_width < threshold:
            reason += f"; the interval is worse than that, but not significant at the fail level, {policy.fail_level:g}"
        # The smallest possible p of a sign-flip test halves with each conversation, so significance needs a minimum.
        if oriented > threshold:
            least = 0 if better is None else math.ceil(math.log2(families[1] / policy.level))
            settles = _settles(oriented - threshold, half_width, len(result.groups), least)
        else:
            least = math.ceil(math.log2(families[0] / policy.fail_level))
            settles = _settles(oriented - threshold, _half_width(result, policy.fail_level), len(result.groups), least)
    return line(rule, status, reason, settles, low=low, high=high, confidence=confidence, **numbers)


def _settles(distance: float, half_width: float, conversations: int, least: int = 0) -> str:
    """Return what would decide the rule if the observed difference holds.

    The interval shrinks with the square root of the number of conversations.
    """
    if abs(distance) < 1e-9:
        return "a different threshold: the observed difference equals this one, so more conversations cannot decide"
    more = max(math.ceil(conversations * (half_width / abs(distance)) ** 2) - conversations, least - conversations, 1)
    return f"about {counted(more, 'more conversation')} like these, if the observed difference holds"


def _limit(rule: Rule, values: Sequence[float]) -> Line:
    value = math.fsum(values) / len(values)
    over = rule.at_most is not None and value > rule.at_most
    under = rule.at_least is not None and value < rule.at_least
    why = f"mean {value:.4g} over {len(values)} values; the policy requires {bounds(rule)}"
    return line(rule, FAIL if over or under else PASS, why, candidate=value, n=len(values), limit=bounds(rule))


def _slices(rule: Rule, data: Evidence, policy: Policy) -> Iterator[Line]:
    """Yield an exploratory line, never critical, for each value of the rule's slices with enough conversations."""
    advisory = replace(rule, critical=False)
    for key in rule.slices:
        members: dict[str, set[str]] = {}
        for probe, slices in data.slices.items():
            if key in slices:
                members.setdefault(slices[key], set()).add(probe)
        if not 0 < len(members) <= MAX_SLICE_VALUES:
            names = sorted({name for slices in data.slices.values() for name in slices})
            why = f"has {len(members)} values, not 1 to {MAX_SLICE_VALUES}; slices: {', '.join(names) or 'none'}"
            yield replace(line(advisory, SKIPPED, f"slices: {key!r} {why}"), slice=key)
            continue
        for value, probes in sorted(members.items()):
            part = _part(data.pairs.get(rule.measure), probes)
            result = compared(part) if part else None
            if result and _has_enough(result, policy):
                judged = _difference(advisory, result, policy)
                reason = judged.reason.replace(":", f" [{key}={value}]:", 1)
                yield replace(judged, reason=f"{reason} (exploratory)", slice=f"{key}={value}")


def _part(pairs: Pairs | None, probes: set[str]) -> Pairs | None:
    """Return the pairs at some probes; None if there are none."""
    if pairs is None:
        return None
    columns = (pairs.at, pairs.conversation, pairs.baseline, pairs.candidate)
    kept = [
        list(column) for column in zip(*(row for row in zip(*columns, strict=True) if row[0] in probes), strict=True)
    ]
    return Pairs(pairs.measure, kept[0], kept[1], kept[2], kept[3]) if kept else None
