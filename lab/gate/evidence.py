"""The scored values that guard, improve, worth, slice and limit rules are judged by."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.compare.comparable import require_comparable
from lab.compare.equal import equal_in
from lab.compare.judged import as_json, judged_means
from lab.compare.paired import locate
from lab.compare.pairs import Pairs, by_conversation, pairs_by_measure
from lab.compare.statistics import Estimate, clipped, clustered
from lab.gate.keys import BASELINE, CONTROL_ARM
from lab.gate.policy import DIFFERENCES, Policy, Rule
from lab.measures.catalogue import widest
from lab.measures.score import more_measures, score_run
from lab.replay.command import command_with
from lab.runs.directory import RunDirectory
from lab.runs.gold import read_gold
from lab.runs.scores import Scores

Groups = Mapping[str, Sequence[float]]
# Why a measure may have no values, and what gives it some, by the name of the measure without its cutoff.
NO_SCOPES = "scopes are not enforced", "replay with `--scope recorded`, or tags"
NOTHING_SILENT = "no probe needs nothing", "judge silent turns (type needs_nothing) in the golden set"
NO_MUST = "no must_remember memory was injected", "see `lab replay --labels` and `--categories`"
GIVES_VALUES = {
    "HardRules": ("no memory is a hard rule", "`lab replay --hard-rules N` samples N per conversation"),
    "StaleRecall": ("no memory is superseded", "record what replaced a memory (field `supersedes`)"),
    "Forbidden": ("no memory is judged misleading", "forbid some in the golden set (`lab golden judge`, key f)"),
    "CleanHit": ("no probe has relevant memories", "a golden set does that (`lab golden pool` starts one)"),
    "FalseRecall": NOTHING_SILENT,
    "FalseItems": NOTHING_SILENT,
    "GoldNice": ("no relevant memory is labelled nice_to_have", "see `lab replay --labels`"),
    "BackboneDuplication": (
        "no arm has a Working Set with lines",
        "enable it in an arm's configuration (workingSet.enabled); add `--categories detected` if none is recorded",
    ),
    "WrongScope": NO_SCOPES,
    "AnyWrongScope": NO_SCOPES,
    "MustRepeat": NO_MUST,
    "MustStreak": NO_MUST,
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The values of a scored run that the rules are judged by.

    ``candidate`` holds the candidate's values and ``pairs`` the paired values of baseline and candidate, by measure;
    ``control`` those of the policy's control and the candidate. ``slices`` holds the slices of each probe; ``depth``
    the length of the shortest ranking of the arms. ``judged`` has Judged@k of the arms that are compared, as
    :func:`lab.compare.judged.as_json` gives it; None where nothing was judged.
    """

    candidate: Mapping[str, Sequence[float]]
    pairs: Mapping[str, Pairs]
    slices: Mapping[str, Mapping[str, str]]
    depth: float = math.inf
    control: Mapping[str, Pairs] = field(default_factory=dict)
    judged: Mapping[str, Any] | None = None

    def paired(self, rule: Rule) -> Pairs | None:
        """Return the pairs that a rule judges, if its measure has values."""
        return (self.control if rule.against == CONTROL_ARM else self.pairs).get(rule.measure)

    def why_nothing(self, measure: str) -> tuple[str, str | None]:
        """Return why a measure has no values, and what would give it some, if that is known."""
        stem, _, cutoff = measure.partition("@")
        if cutoff.isdigit() and int(cutoff) > self.depth:
            return f"the arm returns at most {self.depth} items, so there is no value at {cutoff}", f"use @{self.depth}"
        if stem in GIVES_VALUES:
            return GIVES_VALUES[stem]
        if not self.slices:
            return "not measured", "measures of relevance need a golden set (`lab golden pool` starts one)"
        return "not measured", None


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
    measures = tuple(dict.fromkeys(rule.measure for rule in rules))
    extra = more_measures(measures, mine.max_items.values())
    scores = score_run(mine, extra)
    depth = mine.depths[arm]
    sides: dict[str, dict[str, Pairs]] = {}
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
        others: Scores = scores if theirs is mine else score_run(theirs, extra)
        depth = min(depth, theirs.depths[base])
        arms[name] = (theirs, base, others)
        sides[side] = {pair.measure: pair for pair in pairs_by_measure(others, base, scores, arm, equal_in(mine))[0]}
    uses_slices = any(rule.slices or rule.kind == "slice" for rule in rules)
    slices = {probe: gold.slices for probe, gold in read_gold(mine).items()} if uses_slices else {}
    values = {name: series.value for name, series in scores.of_arm(arm).items()}
    cutoff = min(where.max_items[each] for where, each, _ in arms.values())
    shares = {name: share for name, (_, each, of) in arms.items() if (share := judged_means(of, cutoff).get(each))}
    judged = as_json(shares, cutoff) if shares else None
    return Evidence(values, sides.get(BASELINE, {}), slices, depth, sides.get(CONTROL_ARM, {}), judged)


def locate_arm(run: RunDirectory, name: str, where: str) -> tuple[RunDirectory, str]:
    """Return the run and name of an arm; for one that is missing, raise :class:`UnusableInput` with the command."""
    if name in run.arms or ":" in name:
        return locate(run, name)
    given = run.manifest.asked.get("arms")
    arms = [*(given if isinstance(given, list | tuple) else ()), name]
    out = Path(run.path).with_name(f"{Path(run.path).name}-{name}")
    raise UnusableInput(
        f"{where}: {run.path} has no arm {name!r}; it has: {', '.join(run.arms)}. A run with it: "
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
