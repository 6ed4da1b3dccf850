"""Guard, improve, worth, slice and limit rules: judge a scored run, alone or against its baseline and its control.

A guard is a non-inferiority test. It passes if the interval of the difference lies above minus the margin; the interval
is clustered by conversation and one-sided at the policy's level. A guard fails if the interval at ``fail_level`` lies
below minus the margin and a one-sided sign-flip test by conversation agrees, Holm-corrected over the critical rules of
its family with enough conversations. Otherwise it is inconclusive. All guards must pass, so passing needs no
correction. To pass, an improve or worth rule also needs a sign-flip test, Holm-corrected over those of its family.

A slice rule tests every value of a slice as a guard does, all slice rules in one family. A slice that is shown to be
worse fails the policy; one that is undecided is reported and decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from lab.base.formatting import counted, number, signed
from lab.compare.judgements import Exposed
from lab.compare.paired import Pairs, by_conversation
from lab.compare.statistics import (
    LEAST_CLUSTERS,
    Estimate,
    clipped,
    clustered,
    conversations_needed,
    holm,
    sign_flip,
    t_quantile,
)
from lab.gate.evidence import SAFETY, Evidence
from lab.gate.keys import ACCEPT, CONTROL_ARM
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, SKIPPED, Line, bounds, lacking, line, unmeasurable
from lab.gate.policy import DIFFERENCES, OF_CONTROL, OF_MEASURES, Policy, Rule
from lab.measures.catalogue import direction, widest
from lab.measures.score import MAX_SLICE_VALUES

Groups = Mapping[str, Sequence[float]]


class Compared(NamedTuple):
    """A measure in both arms: means, differences by conversation, their estimate, and how many were filled in."""

    baseline: float
    candidate: float
    groups: Groups
    estimate: Estimate
    filled: tuple[int, int] = (0, 0)

    @property
    def n(self) -> int:
        """Return the number of paired values."""
        return sum(map(len, self.groups.values()))

    def sums(self, sign: float, shift: float) -> list[float]:
        """Return, by conversation, the sum of ``sign * difference + shift``."""
        return [sign * math.fsum(values) + shift * len(values) for values in self.groups.values()]


def compared(pairs: Pairs) -> Compared:
    """Return the means of both arms, the differences by conversation, and their estimate."""
    groups = by_conversation(pairs)
    n = len(pairs.at)
    estimate = clipped(clustered(groups), widest(pairs.measure))
    filled = (pairs.filled_baseline, pairs.filled_candidate)
    return Compared(sum(pairs.baseline) / n, sum(pairs.candidate) / n, groups, estimate, filled)


def part_of(pairs: Pairs | None, probes: set[str]) -> Pairs | None:
    """Return the pairs at some probes; None if there are none."""
    if pairs is None:
        return None
    rows = [row for row, at in enumerate(pairs.at) if at in probes]
    return pairs.at_rows(rows) if rows else None


KINDS = OF_MEASURES
# Kinds that claim an improvement; the others claim that nothing got worse.
CLAIMS = ("improve", "worth")
# Those that compare every value of two arms, and decide.
DECIDING = ("guard", "improve")


class Tested(NamedTuple):
    """A comparison of two arms by a rule: over everything, or over one value of a slice (``type=decision``)."""

    rule: Rule
    slice: str | None
    result: Compared


class Corrected(NamedTuple):
    """Holm-adjusted p-values of a test, None outside the family, and the sizes of the two families."""

    worse: float | None = None
    better: float | None = None
    tests: int = 1
    claims: int = 1


def judge_compared(policy: Policy, rules: Sequence[Rule], data: Evidence) -> Iterator[Line]:
    """Yield one line per rule, each followed by the lines of its slices."""
    tests = [test for rule in rules for test in tests_of(rule, data)]
    # Beside nothing that was compared, there is nothing to accept.
    accepts = policy.unmeasured == ACCEPT and any(test.rule.critical and test.rule.kind in DECIDING for test in tests)
    corrected = _corrected(tests, policy)
    for rule in rules:
        own = [test for test in tests if test.rule is rule]
        if rule.kind == "limit":
            values = data.candidate.get(rule.measure)
            yield _limit(rule, values) if values else _lacking(rule, data, accepts)
        elif not own:
            yield _untested(rule, data, policy, accepts)
        exposed = data.exposed.get((rule.measure, rule.against)) if rule.exposure is not None else None
        if own and exposed is not None and _is_unexposed(exposed):
            yield _unexposed(own[0], exposed, policy)
            own = []
        for test in own:
            judged = _difference(test, policy, corrected.get(id(test.result), Corrected()))
            # A worth rule answers a question beside the verdict; an undecided slice decides nothing.
            decides = rule.kind not in ("worth", "slice") or (rule.kind == "slice" and judged.status == FAIL)
            yield replace(judged, critical=rule.critical and decides)
        for value in rule.values if own else ():
            if all(test.slice != f"{rule.of}={value}" for test in own):
                skipped = line(
                    replace(rule, critical=False), SKIPPED, f"no probe has the value {value!r} of {rule.of!r}"
                )
                yield replace(skipped, slice=f"{rule.of}={value}", against=_arm(rule, policy))
        yield from _slices(rule, data, policy)


def _is_unexposed(exposed: Exposed) -> bool:
    """Return whether the candidate injects too little that was judged, in all or in a quarter of the conversations."""
    return 2 * exposed.candidate < exposed.baseline or 4 * exposed.deaf >= exposed.conversations


def _unexposed(test: Tested, exposed: Exposed, policy: Policy) -> Line:
    """Return the line of an arm that is refused, because it injects too little that was judged to be seen to harm."""
    rule, result = test.rule, test.result
    reason = (
        f"without exposure: a judged memory is injected at {exposed.candidate:,} of {result.n:,} probes, against "
        f"{exposed.baseline:,}, and at less than half as many in {exposed.deaf} of {exposed.conversations} "
        "conversations; so few show no harm"
    )
    numbers = {"baseline": result.baseline, "candidate": result.candidate, "n": result.n, "threshold": rule.margin}
    settles = "judgements of what it injects" if exposed.candidate else None
    return _named(replace(line(rule, FAIL, reason, settles, **numbers), against=_arm(rule, policy)))


def tests_of(rule: Rule, data: Evidence) -> Iterator[Tested]:
    """Yield the comparisons of a rule, one for each value of a slice; none if its measure has no values."""
    pairs = data.paired(rule) if rule.kind in DIFFERENCES else None
    if pairs is None:
        return
    if rule.kind != "slice":
        yield Tested(rule, None, compared(pairs))
        return
    members = members_of(str(rule.of), data.slices)
    for value in rule.values or (sorted(members) if len(members) <= MAX_SLICE_VALUES else ()):
        part = part_of(pairs, members.get(value, set()))
        if part is not None:
            yield Tested(rule, f"{rule.of}={value}", compared(part))


def _lacking(rule: Rule, data: Evidence, accepts: bool) -> Line:
    """Return the line of a rule whose measure has no values; ``accepts`` is whether the policy accepts that."""
    lack = data.why_nothing(rule)
    is_open = rule.without_data == INCONCLUSIVE or (accepts and rule.must_have_data)
    if lack.of_data and is_open and rule.measure not in SAFETY:
        return unmeasurable(rule, lack.why, lack.remedy, accepted=accepts)
    return lacking(rule, lack.why, lack.remedy)


def _untested(rule: Rule, data: Evidence, policy: Policy, accepts: bool) -> Line:
    """Return the line of a rule without a test: its measure or its slice has no values."""
    arm = _arm(rule, policy)
    if rule.kind == "slice" and data.paired(rule) is not None:
        names = sorted({name for slices in data.slices.values() for name in slices})
        why = f"no probe has a value of the slice {rule.of!r}; slices: {', '.join(names) or 'none'}"
        if rule.of in names and rule.values:
            why = f"no probe has the value {' or '.join(map(repr, rule.values))} of {rule.of!r}"
        return replace(line(replace(rule, critical=False), SKIPPED, why), slice=rule.of, against=arm)
    # A worth rule answers a question beside the verdict.
    rule = replace(rule, critical=rule.critical and rule.kind not in OF_CONTROL)
    return replace(_lacking(rule, data, accepts), against=arm)


def _arm(rule: Rule, policy: Policy) -> str | None:
    """Return the control's arm for the rules that compare with it."""
    return policy.control.arm if rule.against == CONTROL_ARM and policy.control else None


def decisive_of(tests: Sequence[Tested], policy: Policy) -> list[Tested]:
    """Return the critical tests with enough conversations: those that share Holm's correction by family."""
    return [test for test in tests if test.rule.critical and _has_enough(test.result, policy)]


def _corrected(tests: Sequence[Tested], policy: Policy) -> dict[int, Corrected]:
    """Return the corrected p-values of the critical tests with enough conversations, by the id of their result."""
    decisive = decisive_of(tests, policy)
    sizes = Counter(test.rule.family for test in decisive)
    claims = Counter(test.rule.family for test in decisive if test.rule.kind in CLAIMS)
    worse: dict[int, float] = {}
    better: dict[int, float] = {}
    for family, size in sizes.items():
        own = [test for test in decisive if test.rule.family == family]
        worse |= _holm([test for test in own if is_beyond(test.rule, test.result, policy)], size, -1.0)
        better |= _holm([test for test in own if test.rule.kind in CLAIMS], claims[family], 1.0)
    return {
        id(test.result): Corrected(
            worse.get(id(test.result)),
            better.get(id(test.result)),
            sizes[test.rule.family],
            claims[test.rule.family] or 1,
        )
        for test in decisive
    }


def _holm(tests: Sequence[Tested], family: int, side: float) -> dict[int, float]:
    """Return Holm-adjusted p-values that the candidate is better (``side`` 1) or worse (-1) than the rule requires.

    Members of the family that are not in ``tests`` count with p = 1.
    """
    p_values = {f"{index:04}": p_of(test.rule, test.result, side) for index, test in enumerate(tests)}
    p_values |= {f"other {index}": 1.0 for index in range(family - len(tests))}
    adjusted = holm(p_values)
    return {id(test.result): adjusted[f"{index:04}"] for index, test in enumerate(tests)}


def p_of(rule: Rule, result: Compared, side: float) -> float:
    """Return the one-sided p that the candidate is better (``side`` 1) or worse (-1) than the rule requires."""
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign_flip([side * value for value in result.sums(sign, -threshold_of(rule))], one_sided=True)


def threshold_of(rule: Rule) -> float:
    """Return the threshold that the difference, oriented so that more is better, must exceed."""
    return rule.by if rule.kind in CLAIMS else -rule.margin


def _least(policy: Policy) -> int:
    return max(policy.minimum_conversations, LEAST_CLUSTERS)


def _claim(rule: Rule) -> str:
    """Return what an improve or worth rule claims; a rule against its measure's direction claims no improvement."""
    word = "better" if direction(rule.measure) in ("neither", rule.direction) else rule.direction
    return f"{word} by more than {rule.by:g}" if rule.by else word


def _has_enough(result: Compared, policy: Policy) -> bool:
    return len(result.groups) >= _least(policy) and result.estimate.standard_error is not None


def _differs(result: Compared) -> bool:
    """Return whether the two arms differ anywhere; if they do not, no interval is needed to say so."""
    return any(value for values in result.groups.values() for value in values)


def _half_width(result: Compared, level: float) -> float:
    return t_quantile(1 - level, len(result.groups) - 1) * (result.estimate.standard_error or 0.0)


def is_beyond(rule: Rule, result: Compared, policy: Policy) -> bool:
    """Return whether the whole interval at ``fail_level`` lies on the wrong side of the threshold."""
    sign = -1.0 if rule.direction == "lower" else 1.0
    return sign * result.estimate.mean + _half_width(result, policy.fail_level) < threshold_of(rule)


def _few(result: Compared, policy: Policy) -> str:
    """Return why a test with few conversations is not judged."""
    reason = (
        f"{counted(len(result.groups), 'conversation')}; the policy requires at least {policy.minimum_conversations}"
    )
    if policy.minimum_conversations < LEAST_CLUSTERS:
        reason = (
            f"{counted(len(result.groups), 'conversation')}; an interval needs {LEAST_CLUSTERS}, because no two-sided "
            "sign-flip test over fewer can reach 5 %"
        )
    return reason


def _difference(test: Tested, policy: Policy, corrected: Corrected) -> Line:
    """Return the line of a test."""
    rule, part, result = test
    arm = _arm(rule, policy)
    numbers: dict[str, Any] = {
        "baseline": result.baseline,
        "candidate": result.candidate,
        "difference": result.estimate.mean,
        "conversations": len(result.groups),
        "n": result.n,
        "slice": part,
        "against": arm,
        "threshold": rule.by if rule.kind in CLAIMS else rule.margin,
    }
    if rule.kind not in CLAIMS and not _differs(result) and len(result.groups) >= policy.minimum_conversations:
        reason = f"identical at all {result.n} values over {counted(len(result.groups), 'conversation')}"
        return _named(line(rule, PASS, f"{reason}{_filled(result)}", **numbers))
    if not _has_enough(result, policy):
        more = counted(max(_least(policy) - len(result.groups), 1), "more conversation")
        return _named(line(rule, INCONCLUSIVE, _few(result, policy), more, **numbers))
    sign, threshold = -1.0 if rule.direction == "lower" else 1.0, threshold_of(rule)
    half_width = _half_width(result, policy.level)
    oriented = sign * result.estimate.mean
    low, high, confidence = result.estimate.mean - half_width, result.estimate.mean + half_width, 1 - 2 * policy.level
    bound = widest(rule.measure) or math.inf
    low, high = max(low, -bound), min(high, bound)
    if rule.kind in CLAIMS:
        name = _claim(rule)
        conclusion = {
            PASS: f"shown to be {name}",
            FAIL: f"shown not to be {name}",
            INCONCLUSIVE: f"not shown to be {name}",
        }
    else:
        name = f"worse by more than {rule.margin:g}"
        conclusion = {PASS: f"shown not to be {name}", FAIL: f"shown to be {name}", INCONCLUSIVE: f"may be {name}"}
    # An advisory rule is in no family: its interval decides its status.
    shown = oriented - half_width > threshold if rule.kind in CLAIMS else oriented - half_width >= threshold
    worse, better = corrected.worse, corrected.better
    if shown and (better is None or better <= policy.level):
        status = PASS
    elif is_beyond(rule, result, policy) and (not rule.critical or (worse is not None and worse <= policy.fail_level)):
        status = FAIL
    else:
        status = INCONCLUSIVE
    said = signed(result.estimate.mean) + (" at equal exposure" if rule.exposure else "")
    reason = (
        f"{number(result.candidate)} against {number(result.baseline)}{f' of {arm}' if arm else ''}, difference "
        f"{said} ({100 * confidence:g} % interval {signed(low)} to {signed(high)} over "
        f"{len(result.groups)} conversations): {conclusion[status]}{_filled(result)}"
    )
    settles = None
    if status == INCONCLUSIVE:
        if oriented + half_width < threshold:
            reason += (
                f"; the interval lies below that, but the test, corrected over {counted(corrected.tests, 'rule')}, is "
                f"not significant at the fail level, {policy.fail_level:g}"
            )
        # The smallest possible p of a sign-flip test halves with each conversation, so significance needs a minimum.
        is_pass = oriented > threshold
        level = policy.level if is_pass else policy.fail_level
        family = corrected.claims if is_pass else corrected.tests
        tested = not is_pass or rule.kind in CLAIMS
        least = math.ceil(math.log2(family / level)) if tested else LEAST_CLUSTERS
        settles = _settles(oriented - threshold, result, level, max(least, LEAST_CLUSTERS))
    return _named(line(rule, status, reason, settles, low=low, high=high, confidence=confidence, **numbers))


def _named(judged: Line) -> Line:
    """Return a line whose reason names its slice and its control."""
    return replace(judged, reason=judged.label + judged.reason.removeprefix(judged.measure))


def _filled(result: Compared) -> str:
    """Return how many values each arm lacked, if any: so many fewer does it have on its own."""
    counts = [
        f"{count} in the {arm}" for arm, count in zip(("baseline", "candidate"), result.filled, strict=True) if count
    ]
    return f" (of {result.n:,} values, {' and '.join(counts)} had none and were filled in)" if counts else ""


def _settles(distance: float, result: Compared, level: float, least: int) -> str:
    """Return how many more conversations would decide the rule with 80 % power, if the observed difference is true."""
    conversations = len(result.groups)
    if abs(distance) < 1e-9:
        return "a different threshold: the observed difference equals this one, so more conversations cannot decide"
    needed = conversations_needed(distance, result.estimate.standard_error or 0.0, conversations, level, least)
    if needed is None:
        return "a different threshold: the observed difference is so near to this one that no study would decide"
    more = max(needed - conversations, 1)
    return f"about {counted(more, 'more conversation')} like these, if the observed difference is true (80 % power)"


def _limit(rule: Rule, values: Sequence[float]) -> Line:
    value = math.fsum(values) / len(values)
    over = rule.at_most is not None and value > rule.at_most
    under = rule.at_least is not None and value < rule.at_least
    why = f"mean {value:.4g} over {counted(len(values), 'value')}; the policy requires {bounds(rule)}"
    return line(rule, FAIL if over or under else PASS, why, candidate=value, n=len(values), limit=bounds(rule))


def members_of(key: str, of_probes: Mapping[str, Mapping[str, str]]) -> Mapping[str, set[str]]:
    """Return the probes of each value of a slice."""
    members: dict[str, set[str]] = {}
    for probe, slices in of_probes.items():
        if key in slices:
            members.setdefault(slices[key], set()).add(probe)
    return members


def _slices(rule: Rule, data: Evidence, policy: Policy) -> Iterator[Line]:
    """Yield an exploratory line, never critical, for each value of the rule's slices with enough conversations."""
    advisory = replace(rule, critical=False)
    for key in rule.slices:
        members = members_of(key, data.slices)
        if not 0 < len(members) <= MAX_SLICE_VALUES:
            names = sorted({name for slices in data.slices.values() for name in slices})
            why = f"has {len(members)} values, not 1 to {MAX_SLICE_VALUES}; slices: {', '.join(names) or 'none'}"
            yield replace(line(advisory, SKIPPED, f"slices: {key!r} {why}"), slice=key)
            continue
        for value, probes in sorted(members.items()):
            part = part_of(data.paired(rule), probes)
            result = compared(part) if part else None
            if result and _has_enough(result, policy):
                judged = _difference(Tested(advisory, f"{key}={value}", result), policy, Corrected())
                yield replace(judged, reason=f"{judged.reason} (exploratory)")
