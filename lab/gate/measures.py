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
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, counted, number, signed
from lab.compare.comparable import equal_in, require_comparable
from lab.compare.paired import Pairs, as_json, by_conversation, judged_means, locate, pairs_by_measure
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
from lab.gate.line import FAIL, INCONCLUSIVE, PASS, SKIPPED, Line, bounds, lacking, line, unmeasurable
from lab.gate.policy import ACCEPT, BASELINE, CONTROL_ARM, DIFFERENCES, OF_CONTROL, OF_MEASURES, Policy, Rule
from lab.gate.shipped import is_shipped
from lab.measures.catalogue import direction, entry_of, widest
from lab.measures.score import MAX_SLICE_VALUES, more_measures, score_run
from lab.replay.command import command_with
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores, read_gold

Groups = Mapping[str, Sequence[float]]


class Lack(NamedTuple):
    """Why a measure has no values, and what would give it some, if that is known.

    ``of_data`` says that the data has no label or opportunity of its kind: no arm could have a value.
    """

    why: str
    remedy: str | None
    of_data: bool = True


NO_GOLD = Lack("no probe has relevant memories", "a golden set does that (`lab golden pool` starts one)")
NO_TURN = Lack(
    "no turn recalls, because the questions come after the sessions",
    "questions within the sessions, or a replay with --recall-turns all",
)
ONE_TURN = Lack("no conversation has two turns that recall, so nothing can repeat", "longer conversations")
NO_SCOPES = Lack("scopes are not enforced", "replay with `--scope recorded`, or tags")
NOTHING_SILENT = Lack("no probe needs nothing", "judge silent turns (type needs_nothing) in the golden set")
NO_MUST = Lack("no must_remember memory was injected", "see `lab replay --labels` and `--categories`", of_data=False)
# By the name of the measure without its cutoff.
GIVES_VALUES = {
    "HardRules": Lack("no memory is a hard rule", "`lab replay --hard-rules N` samples N per conversation"),
    "StaleRecall": Lack("no memory is superseded", "record what replaced a memory (field `supersedes`)"),
    "Forbidden": Lack(
        "no memory is judged misleading", "judge some as misleading in the golden set (`lab golden judge`, key f)"
    ),
    "FalseRecall": NOTHING_SILENT,
    "FalseItems": NOTHING_SILENT,
    "GoldNice": Lack("no relevant memory is labelled nice_to_have", "see `lab replay --labels`"),
    "BackboneDuplication": Lack(
        "no arm has a Working Set with lines",
        "enable it in an arm's configuration (workingSet.enabled); add `--categories detected` if none is recorded",
        of_data=False,
    ),
    "WrongScope": NO_SCOPES,
    "AnyWrongScope": NO_SCOPES,
    "MustRepeat": NO_MUST,
    "MustStreak": NO_MUST,
}
# Safety checks: that the data has nothing to check is never accepted.
SAFETY = ("WrongScope", "AnyWrongScope", "Unescaped", "Duplicates", "Future", "Leaks")


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of a scored run that the rules are judged by.

    ``candidate`` holds the candidate's values and ``pairs`` the paired values of baseline and candidate, by measure;
    ``control`` those of the policy's control and the candidate. ``slices`` holds the slices of each probe; ``depth``
    the length of the shortest ranking of the arms. ``judged`` has Judged@k of the arms that are compared, as
    :func:`lab.compare.paired.as_json` gives it; None where nothing was judged. ``valued`` has the measures with a value
    in any of these arms, ``turns`` the largest number of recall turns of a conversation, ``policy`` the file to
    edit, and ``off`` the arms that their host does not run, by what a rule compares the candidate with.
    """

    candidate: Mapping[str, Sequence[float]]
    pairs: Mapping[str, Pairs]
    slices: Mapping[str, Mapping[str, str]]
    depth: float = math.inf
    control: Mapping[str, Pairs] = field(default_factory=dict)
    judged: Mapping[str, Any] | None = None
    valued: frozenset[str] = frozenset()
    turns: int = 0
    policy: str = "the policy"
    off: Mapping[str, str] = field(default_factory=dict)

    def paired(self, rule: Rule) -> Pairs | None:
        """Return the pairs that a rule judges, if its measure has values."""
        return (self.control if rule.against == CONTROL_ARM else self.pairs).get(rule.measure)

    def why_nothing(self, rule: Rule) -> Lack:
        """Return why the measure of a rule has no values, in an arm or in all."""
        measure = rule.measure
        stem, _, cutoff = measure.partition("@")
        # A smaller cutoff helps only where one has values.
        is_cut = cutoff.isdigit() and any(name.startswith(f"{stem}@") for name in self.valued)
        if is_cut and int(cutoff) > self.depth:
            why = f"the arm returns at most {self.depth} items, so there is no value at {cutoff}"
            return Lack(why, f"use @{self.depth} in {self.policy}", of_data=False)
        if measure in self.valued:
            if measure in self.candidate and rule.against in self.off:
                return Lack(f"arm {self.off[rule.against]} injects nothing, as on its host", "an arm that does")
            return Lack("one of the arms has no value", None, of_data=False)
        if stem == "GoldNice" and "Success@1" not in self.valued:
            # Labels settle nothing before a memory is relevant.
            return NO_GOLD
        if stem in GIVES_VALUES:
            return GIVES_VALUES[stem]
        unit = entry.unit if (entry := entry_of(measure)) else None
        if unit == "probe" and "Success@1" not in self.valued:
            return NO_GOLD
        if unit == "turn" and self.turns < 2:
            return ONE_TURN if self.turns else NO_TURN
        return Lack("not measured", None, of_data=False)


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


def evidence(policy: Policy, rules: Sequence[Rule], run: RunDirectory, against: RunDirectory | None = None) -> Evidence:
    """Score a run and what it is compared with: its baseline arm, or the candidate's arm in the run ``against``.

    Raises :class:`NotComparable` if the two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an arm that is missing, with the command that adds it.
    """
    mine, arm = locate(run, policy.candidate)
    uses_slices = any(rule.slices or rule.kind == "slice" for rule in rules)
    slices = {probe: gold.slices for probe, gold in read_gold(mine).items()} if uses_slices else {}
    _require_slices(rules, slices)
    measures = tuple(dict.fromkeys(rule.measure for rule in rules))
    # The rules need few of all measures; the other values would only be paired in vain. Some say why one is missing.
    needed = {*measures, *(f"{stem}@1" for stem, at, _ in (name.partition("@") for name in measures) if at)}
    extra = more_measures(sorted(needed), mine.max_items.values())
    needed |= {"Success@1", "InjectedItems", *(f"Judged@{most}" for most in range(1, max(mine.max_items.values()) + 1))}
    scores = score_run(mine, extra).only(needed)
    depth = mine.depths[arm]
    sides: dict[str, dict[str, Pairs]] = {}
    off: dict[str, str] = {}
    arms = {policy.candidate: (mine, arm, scores)}
    for side in dict.fromkeys(rule.against for rule in rules if rule.kind in DIFFERENCES):
        name = policy.control.arm if side == CONTROL_ARM and policy.control else policy.baseline
        if side == CONTROL_ARM or against is None:
            theirs, base = locate_arm(run, name, f"{policy.where}: {side}")
        else:
            name = f"{against.path}:{arm}"
            theirs, base = locate(against, arm)
        if (theirs.path.resolve(), base) == (mine.path.resolve(), arm):
            raise UnusableInput(f"{side} and candidate are both {arm!r} of {run.path}; name two different arms")
        require_comparable(theirs, mine)
        others: Scores = scores if theirs is mine else score_run(theirs, extra).only(needed)
        depth = min(depth, theirs.depths[base])
        arms[name] = (theirs, base, others)
        if theirs.arm(base).off:
            off[side] = base
        sides[side] = {pair.measure: pair for pair in pairs_by_measure(others, base, scores, arm, equal_in(mine))[0]}
    values = {name: series.value for name, series in scores.of_arm(arm).items()}
    cutoff = min(where.max_items[each] for where, each, _ in arms.values())
    shares = {name: share for name, (_, each, of) in arms.items() if (share := judged_means(of, cutoff).get(each))}
    return Evidence(
        values,
        sides.get(BASELINE, {}),
        slices,
        depth,
        sides.get(CONTROL_ARM, {}),
        as_json(shares, cutoff) if shares else None,
        frozenset(name for _, each, of in arms.values() for name in of.of_arm(each)),
        _most_turns(scores, arm),
        _named_file(policy),
        off,
    )


def _require_slices(rules: Sequence[Rule], slices: Mapping[str, Mapping[str, str]]) -> None:
    """Raise :class:`UnusableInput` for a slice, or a value of one, that is nearly one of the run: it is mistyped."""
    known: dict[str, set[str]] = {}
    for probe in slices.values():
        for key, value in probe.items():
            known.setdefault(key, set()).add(value)
    for rule in rules:
        named = [("of" if rule.of else "slices", key, sorted(known)) for key in (rule.of, *rule.slices) if key]
        named += [("values", value, sorted(known.get(str(rule.of), ()))) for value in rule.values]
        for key, name, names in named:
            if name not in names and get_close_matches(name.lower(), names, 1, 0.7):
                where = f"{rule.kind} {rule.measure}: {key}"
                raise UnusableInput(f"{where}: no probe has {name!r}; {choices(name, names, 'probes have')}")


def _named_file(policy: Policy) -> str:
    """Return the file in which a policy can be edited; of a shipped one, a copy."""
    if policy.label == policy.name or is_shipped(policy.file):
        return f"a copy of policy {policy.name} (`lab gate policies --show {policy.name}`)"
    return Path(policy.where).name


def _most_turns(scores: Scores, arm: str) -> int:
    """Return the number of recall turns of the conversation with most of them."""
    recalls = scores.all_of_arm(arm).get("InjectedItems")
    return max(Counter(recalls.conversation).values(), default=0) if recalls else 0


def locate_arm(run: RunDirectory, name: str, where: str) -> tuple[RunDirectory, str]:
    """Return the run and name of an arm; for one that is missing, raise :class:`UnusableInput` with the command."""
    if name in run.arms or ":" in name:
        return locate(run, name)
    given = run.manifest.asked.get("arms")
    arms = [*(given if isinstance(given, list | tuple) else ()), name]
    out = Path(run.path).with_name(f"{Path(run.path).name}-{name}")
    raise UnusableInput(
        f"{where}: {run.path} has no arm {name!r}; {choices(name, run.arms, 'it has')}. A run with it: "
        f"{command_with(run.manifest, arms, str(out))}"
    )


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
    reason = (
        f"{number(result.candidate)} against {number(result.baseline)}{f' of {arm}' if arm else ''}, difference "
        f"{signed(result.estimate.mean)} ({100 * confidence:g} % interval {signed(low)} to {signed(high)} over "
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
