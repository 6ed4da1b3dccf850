"""Guards, claims and limits: what a scored run says of the candidate, alone and beside the baseline.

A guarded measure passes where the interval of the difference lies above minus the margin, one-sided at the policy's
level over conversations, and is inconclusive where it does not. It fails where that interval lies below at the policy's
``fail_level`` and a one-sided sign-flip by conversation says the same, Holm-corrected over all that could fail.
Rules that must all pass need no correction on that side; claims to be better do, and get Holm's.
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
    """What there is to judge.

    The candidate's values and both arms' pairs by measure, the slices of each probe, and how many places the arms
    return at least.
    """

    candidate: Mapping[str, Sequence[float]]
    pairs: Mapping[str, Pairs]
    slices: Mapping[str, Mapping[str, str]]
    depth: float = math.inf

    def why_nothing(self, measure: str) -> str:
        """Why there is nothing of a measure."""
        cutoff = measure.rpartition("@")[2]
        if cutoff.isdigit() and int(cutoff) > self.depth:
            return f"nothing is measured at {cutoff} of an arm that returns {self.depth} places; ask for @{self.depth}"
        if not self.slices:
            return "nothing of it was measured: the run has no golden set (lab golden pool begins one)"
        return "nothing of it was measured"


class Compared(NamedTuple):
    """A measure in both arms: means, and the differences by conversation."""

    baseline: float
    candidate: float
    groups: Groups
    estimate: Estimate

    @property
    def n(self) -> int:
        """Places where both have a value."""
        return sum(map(len, self.groups.values()))

    def sums(self, sign: float, shift: float) -> list[float]:
        """By conversation, the sum of ``sign * difference + shift``."""
        return [sign * math.fsum(values) + shift * len(values) for values in self.groups.values()]


def evidence(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None) -> Evidence:
    """Score a run, and what it is compared with: its own baseline arm, or the candidate's arm of another run.

    Raises :class:`NotComparable` where two runs judged other things, :class:`UnusableInput` for an unknown arm.
    """
    mine, arm = locate(run, policy.candidate)
    asked = tuple(dict.fromkeys(rule.measure for rule in rules))
    scores = score_run(mine, more_measures(asked, mine.max_items.values()))
    pairs: dict[str, Pairs] = {}
    depth = mine.depths[arm]
    if any(map(_tests, rules)):
        theirs, base = locate(against or run, arm if against else policy.baseline)
        if (theirs.path.resolve(), base) == (mine.path.resolve(), arm):
            raise UnusableInput(f"baseline and candidate are both {arm!r} of {run.path}: nothing to compare")
        require_comparable(theirs, mine)
        others = scores if theirs is mine else score_run(theirs, more_measures(asked, mine.max_items.values()))
        depth = min(depth, theirs.depths[base])
        pairs = {one.measure: one for one in pairs_by_measure(others, base, scores, arm, equal_in(mine))[0]}
    slices = (
        {probe: gold.slices for probe, gold in read_gold(mine).items()} if any(rule.slices for rule in rules) else {}
    )
    values = {name: found.value for name, found in scores.of_arm(arm).items()}
    return Evidence(values, pairs, slices, depth)


def compared(pairs: Pairs) -> Compared:
    """Means, differences by conversation, and their estimate."""
    groups = by_conversation(pairs)
    n = len(pairs.at)
    return Compared(sum(pairs.baseline) / n, sum(pairs.candidate) / n, groups, clustered(groups))


def judge_compared(policy: Policy, rules: Sequence[Rule], found: Evidence) -> Iterator[Line]:
    """A line a rule, each followed by those of its slices."""
    known = {
        rule: compared(found.pairs[rule.measure]) for rule in rules if _tests(rule) and rule.measure in found.pairs
    }
    decisive = {rule: one for rule, one in known.items() if rule.critical and _enough(one, policy)}
    worse = _holm({rule: one for rule, one in decisive.items() if _beyond(rule, one, policy)}, len(decisive), -1.0)
    claims = {rule: one for rule, one in decisive.items() if rule.kind == "improve"}
    better = _holm(claims, len(claims), 1.0)
    for rule in rules:
        if rule.kind == "limit":
            values = found.candidate.get(rule.measure)
            yield _limit(rule, values) if values else lacking(rule, found.why_nothing(rule.measure))
        elif rule in known:
            families = (len(decisive), len(claims))
            yield _difference(rule, known[rule], policy, worse.get(rule), better.get(rule), families)
        else:
            yield lacking(rule, found.why_nothing(rule.measure))
        yield from _slices(rule, found, policy)


def _tests(rule: Rule) -> bool:
    """Whether it is about a difference."""
    return rule.kind in ("guard", "improve")


def _holm(found: Mapping[Rule, Compared], family: int, side: float) -> dict[Rule, float]:
    """Holm-adjusted p that the candidate is better (``side`` 1) or worse (-1) than the rule needs.

    Members of the family that are not looked at count as if nothing spoke for them.
    """
    p_values = {f"{place:04}": _p(rule, one, side) for place, (rule, one) in enumerate(found.items())}
    p_values |= {f"other {place}": 1.0 for place in range(family - len(found))}
    adjusted = holm(p_values)
    return {rule: adjusted[f"{place:04}"] for place, rule in enumerate(found)}


def _p(rule: Rule, one: Compared, side: float) -> float:
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign_flip([side * value for value in one.sums(sign, -_need(rule))], one_sided=True)


def _need(rule: Rule) -> float:
    """What the difference must lie above, more being better."""
    return -rule.margin if rule.kind == "guard" else rule.by


def _enough(one: Compared, policy: Policy) -> bool:
    return len(one.groups) >= policy.minimum_conversations and one.estimate.standard_error is not None


def _reach(one: Compared, level: float) -> float:
    return t_quantile(1 - level, len(one.groups) - 1) * (one.estimate.standard_error or 0.0)


def _beyond(rule: Rule, one: Compared, policy: Policy) -> bool:
    """Whether the interval lies wholly on the wrong side, at the level of a fail."""
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign * one.estimate.mean + _reach(one, policy.fail_level) < _need(rule)


def _difference(
    rule: Rule,
    one: Compared,
    policy: Policy,
    worse: float | None = None,
    better: float | None = None,
    families: tuple[int, int] = (1, 1),
) -> Line:
    """The line of a guard or a claim.

    ``worse`` and ``better`` are its adjusted p, where it is in those families, of so many rules each.
    """
    numbers = {
        "baseline": one.baseline,
        "candidate": one.candidate,
        "difference": one.estimate.mean,
        "conversations": len(one.groups),
        "n": one.n,
    }
    if not _enough(one, policy):
        least = policy.minimum_conversations
        why = f"{counted(len(one.groups), 'conversation')}, and the policy decides over {least} or more"
        return line(rule, INCONCLUSIVE, why, counted(max(least - len(one.groups), 1), "more conversation"), **numbers)
    sign, need, reach = (-1.0 if rule.direction == "lower" else 1.0), _need(rule), _reach(one, policy.level)
    seen = sign * one.estimate.mean
    low, high, confidence = one.estimate.mean - reach, one.estimate.mean + reach, 1 - 2 * policy.level
    if rule.kind == "guard":
        name = f"worse by more than {rule.margin:g}"
        told = {PASS: f"shown not to be {name}", FAIL: f"shown to be {name}", INCONCLUSIVE: f"may be {name}"}
    else:
        name = f"better by more than {rule.by:g}"
        told = {PASS: f"shown to be {name}", FAIL: f"shown not to be {name}", INCONCLUSIVE: f"not shown to be {name}"}
    # What decides nothing is in no family, and goes by its interval.
    shown = seen - reach >= need if rule.kind == "guard" else seen - reach > need
    if shown and (better is None or better <= policy.level):
        status = PASS
    elif _beyond(rule, one, policy) and (not rule.critical or (worse is not None and worse <= policy.fail_level)):
        status = FAIL
    else:
        status = INCONCLUSIVE
    why = (
        f"{number(one.candidate)} against {number(one.baseline)}, difference {signed(one.estimate.mean)} "
        f"({100 * confidence:g} % interval {signed(low)} to {signed(high)} over {len(one.groups)} "
        f"conversations): {told[status]}"
    )
    settles = None
    if status == INCONCLUSIVE:
        if seen + reach < need:
            why += f"; it seems so, and is not shown at the level of a fail, {policy.fail_level:g}"
        # The least p of a sign-flip halves with each conversation.
        if seen > need:
            least = 0 if better is None else math.ceil(math.log2(families[1] / policy.level))
            settles = _settles(seen - need, reach, len(one.groups), least)
        else:
            least = math.ceil(math.log2(families[0] / policy.fail_level))
            settles = _settles(seen - need, _reach(one, policy.fail_level), len(one.groups), least)
    return line(rule, status, why, settles, low=low, high=high, confidence=confidence, **numbers)


def _settles(distance: float, reach: float, conversations: int, least: int = 0) -> str:
    """What would settle it, were the difference as it seems: the interval shrinks with the root of conversations."""
    if abs(distance) < 1e-9:
        return "no number of conversations, were the difference just as it seems; choose another margin"
    more = max(math.ceil(conversations * (reach / abs(distance)) ** 2) - conversations, least - conversations, 1)
    return f"about {counted(more, 'more conversation')} like these, were the difference as it seems"


def _limit(rule: Rule, values: Sequence[float]) -> Line:
    value = math.fsum(values) / len(values)
    over = rule.at_most is not None and value > rule.at_most
    under = rule.at_least is not None and value < rule.at_least
    why = f"{value:.4g} over {len(values)}, and the policy wants {bounds(rule)}"
    return line(rule, FAIL if over or under else PASS, why, candidate=value, n=len(values), limit=bounds(rule))


def _slices(rule: Rule, found: Evidence, policy: Policy) -> Iterator[Line]:
    """Every value of the rule's slices with enough conversations: exploratory, unadjusted, never critical."""
    told = replace(rule, critical=False)
    for key in rule.slices:
        places: dict[str, set[str]] = {}
        for at, slices in found.slices.items():
            if key in slices:
                places.setdefault(slices[key], set()).add(at)
        if not 0 < len(places) <= MAX_SLICE_VALUES:
            known = sorted({name for slices in found.slices.values() for name in slices})
            why = f"names no subgroups of this run ({len(places)} values); its slices are: {', '.join(known) or 'none'}"
            yield replace(line(told, SKIPPED, f"slices: {key!r} {why}"), slice=key)
            continue
        for value, own in sorted(places.items()):
            part = _part(found.pairs.get(rule.measure), own)
            one = compared(part) if part else None
            if one and _enough(one, policy):
                judged = _difference(told, one, policy)
                reason = judged.reason.replace(":", f" [{key}={value}]:", 1)
                yield replace(judged, reason=f"{reason} (exploratory)", slice=f"{key}={value}")


def _part(pairs: Pairs | None, places: set[str]) -> Pairs | None:
    """The pairs at some places; None where there are none."""
    if pairs is None:
        return None
    columns = (pairs.at, pairs.conversation, pairs.baseline, pairs.candidate)
    kept = [
        list(column) for column in zip(*(row for row in zip(*columns, strict=True) if row[0] in places), strict=True)
    ]
    return Pairs(pairs.measure, kept[0], kept[1], kept[2], kept[3]) if kept else None
