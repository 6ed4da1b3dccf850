"""Two arms over the same probes and turns: differences, their uncertainty, and the turns that flipped."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from lab.compare.comparable import require_comparable
from lab.compare.equal import equal_in, equal_notes
from lab.compare.statistics import Estimate, clustered, holm, sign_flips
from lab.errors import UnusableInput
from lab.measures.catalogue import RANKED, canonical, direction, entry_of
from lab.measures.names import require_measure
from lab.measures.score import MAX_SLICE_VALUES, headlines, more_measures, score_run
from lab.replay.embedders import embedder_notes
from lab.runs.directory import RunDirectory, open_run
from lab.runs.gold import read_gold
from lab.runs.scores import Scores, Values
from lab.runs.trial import trial_of

# With more measures declared, Holm's correction leaves little to be shown.
MOST_PRIMARY = 5


class Pairs(NamedTuple):
    """The places at which two arms are compared by a measure, with its conversation and both values.

    Of these, ``filled_baseline`` and ``filled_candidate`` have a value in the other arm alone, and count as the
    catalogue says; ``left_out`` places have a value in one arm alone and are not among them.
    """

    measure: str
    at: list[str]
    conversation: list[str]
    baseline: list[float]
    candidate: list[float]
    filled_baseline: int = 0
    filled_candidate: int = 0
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure, candidate minus baseline, over the places where either has a value: one denominator.

    ``relative`` is the mean difference over the baseline's mean, ``standardised`` over the spread of differences; None
    where that is nothing. For the last three see :class:`Pairs`.
    """

    measure: str
    n: int
    conversations: int
    baseline: float
    candidate: float
    estimate: Estimate
    p: float
    p_holm: float | None
    wins: int
    ties: int
    losses: int
    relative: float | None = None
    standardised: float | None = None
    filled_baseline: int = 0
    filled_candidate: int = 0
    left_out: int = 0

    def as_json(self) -> dict[str, Any]:
        """Plain values, those of the estimate among them."""
        values = asdict(self)
        del values["measure"], values["estimate"]
        return values | self.estimate._asdict()


class Slice(NamedTuple):
    """A primary measure over a part of the probes or turns. It was looked for afterwards: nothing is adjusted."""

    name: str
    value: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything that a comparison found. ``gained`` and ``lost`` are the probes whose hit at the cutoff changed.

    ``primary`` are the measures that were declared beforehand: Holm's correction covers these and no others.
    ``probes`` is how many had a hit to gain or lose, ``unmeasured`` what only one arm has values of, with the arm that
    has none, ``slices`` the primary measures by subgroup, the worst first, ``drawn_labels`` how labels were drawn,
    where they were not recorded. ``embedder`` holds notes on arms whose configuration names another embedder, and on
    conversations that count as one; ``trial`` what makes their runs a trial.
    """

    baseline: str
    candidate: str
    cutoff: int
    primary: tuple[str, ...]
    differences: tuple[Difference, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    probes: int = 0
    unmeasured: tuple[tuple[str, str], ...] = ()
    slices: tuple[Slice, ...] = ()
    sampled_labels: str | None = None
    embedder: tuple[str, ...] = ()
    trial: tuple[str, ...] = ()

    @property
    def family(self) -> int:
        """How many measures Holm's correction is over: the primary ones that were measured."""
        return sum(one.p_holm is not None for one in self.differences)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "trial": list(self.trial),
            "baseline": self.baseline,
            "candidate": self.candidate,
            "cutoff": self.cutoff,
            "primary": list(self.primary),
            "differences": {one.measure: one.as_json() for one in self.differences},
            "gained": list(self.gained),
            "lost": list(self.lost),
            "probes": self.probes,
            "sampled_labels": self.sampled_labels,
            "unmeasured": dict(self.unmeasured),
            "slices": [
                {"slice": name, "value": value, "measure": one.measure, **one.as_json()}
                for name, value, one in self.slices
            ],
            **({"embedder": list(self.embedder)} if self.embedder else {}),
        }


def compare_arms(
    run: RunDirectory,
    baseline: str,
    candidate: str,
    *,
    primary: Sequence[str] = (),
    slices: bool = False,
    tested_slices: bool = True,
    scores: Scores | None = None,
) -> Comparison:
    """Compare two arms of one run, or of two (``DIR:ARM``).

    ``primary`` are the measures that decide, five at most; by default the headlines of the run. ``scores`` are those
    of ``run``, where they are at hand. Slices that are not tested have NaN for p, and are found sooner. Raises
    :class:`NotComparable` where two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an unknown arm, and for a primary measure that cannot be compared.
    """
    base_run, base_arm = locate(run, baseline)
    cand_run, cand_arm = locate(run, candidate)
    if (base_run.path.resolve(), base_arm) == (cand_run.path.resolve(), cand_arm):
        raise UnusableInput(f"baseline and candidate are both {baseline!r}: nothing to compare")
    require_comparable(base_run, cand_run)
    declared = tuple(dict.fromkeys(canonical(name) for name in primary))
    if len(declared) > MOST_PRIMARY:
        raise UnusableInput(f"{len(declared)} primary measures: {MOST_PRIMARY} at most; name those that would decide")
    for name in declared:
        require_measure(name, "--primary")
    cutoff = min(base_run.max_items[base_arm], cand_run.max_items[cand_arm])
    also = more_measures(declared, [*base_run.max_items.values(), *cand_run.max_items.values()])
    base_scores = scores if scores is not None and base_run is run and not also else score_run(base_run, also)
    cand_scores = base_scores if cand_run is base_run else score_run(cand_run, also)
    pairs, lacking = pairs_by_measure(base_scores, base_arm, cand_scores, cand_arm, equal_in(base_run))
    by_measure = {pair.measure: pair for pair in pairs}
    for name in declared:
        if name not in by_measure:
            arms = {"baseline": baseline, "candidate": candidate}
            none = (
                f"{arms[lacking[name]]} has no value of it" if name in lacking else "no place has a value in both arms"
            )
            short = _too_short(name, {baseline: (base_run, base_arm), candidate: (cand_run, cand_arm)})
            raise UnusableInput(f"--primary {name}: {short or none}; `lab score` lists what a run has")
    chosen = declared or headlines(cutoff)
    hits = by_measure.get(f"Success@{cutoff}", Pairs("", [], [], [], []))
    changes = list(zip(hits.at, hits.baseline, hits.candidate, strict=True))
    return Comparison(
        baseline,
        candidate,
        cutoff,
        chosen,
        _differences(pairs, chosen),
        tuple(at for at, before, after in changes if after > before),
        tuple(at for at, before, after in changes if after < before),
        len(changes),
        tuple((name, {"baseline": baseline, "candidate": candidate}[side]) for name, side in lacking.items()),
        _slices(base_run, [by_measure[name] for name in chosen if name in by_measure], tested_slices) if slices else (),
        base_run.labels if base_run.labels_are_sampled else None,
        _notes(base_run, base_arm, cand_run, cand_arm),
        trial_of(base_run, cand_run),
    )


def _notes(base_run: RunDirectory, base_arm: str, cand_run: RunDirectory, cand_arm: str) -> tuple[str, ...]:
    """Which configurations of the two arms name another embedder than their run used; which conversations are one."""
    same = equal_notes(base_run)
    if base_run is cand_run:
        return (*embedder_notes(base_run.manifest.resolved, (base_arm, cand_arm)), *same)
    both = ((base_run, base_arm), (cand_run, cand_arm))
    notes = dict.fromkeys(note for run, arm in both for note in embedder_notes(run.manifest.resolved, (arm,)))
    return (*notes, *same)


def _too_short(name: str, arms: Mapping[str, tuple[RunDirectory, str]]) -> str | None:
    """Where a cutoff is beyond what the arms return: how far they go. None where it is not, or there is none."""
    stem, _, cutoff = name.partition("@")
    of_ranking = stem.partition("(rel=")[0] in RANKED
    most = {told: (run.depths if of_ranking else run.max_items)[arm] for told, (run, arm) in arms.items()}
    short = {told: places for told, places in most.items() if cutoff and int(cutoff) > places}
    if not short:
        return None
    who = "these arms return" if len(short) == len(arms) else f"{next(iter(short))} returns"
    return f"{who} at most {max(short.values())}"


def paired_differences(scores: Scores, baseline: str, candidate: str, primary: Sequence[str]) -> dict[str, Difference]:
    """Differences of two arms of one run by measure."""
    pairs, _ = pairs_by_measure(scores, baseline, scores, candidate)
    return {one.measure: one for one in _differences(pairs, primary)}


def locate(run: RunDirectory, name: str) -> tuple[RunDirectory, str]:
    """``ARM`` of this run, or ``DIR:ARM`` of another."""
    if name in run.arms:
        return run, name
    folder, _, arm = name.rpartition(":")
    if not folder:
        raise UnusableInput(f"{run.path}: has no arm {name!r}; it has: {', '.join(run.arms)}")
    other = run if Path(folder).resolve() == run.path.resolve() else open_run(Path(folder))
    if other is not run and run.left_out:
        raise UnusableInput(f"{run.path}: --allow-failed leaves turns out of its arms, and {folder} has them")
    if arm not in other.arms:
        raise UnusableInput(f"{other.path}: has no arm {arm!r}; it has: {', '.join(other.arms)}")
    return other, arm


NOTHING = Values([], [], [])


def pairs_by_measure(
    base: Scores, base_arm: str, cand: Scores, cand_arm: str, equal: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Pairs], dict[str, str]]:
    """By measure, in the order in which the baseline has them; and the side that alone has no value of a measure.

    Conversations that ``equal`` names are those that it maps them to: what is measured in both is one cluster.
    """
    befores, afters = base.all_of_arm(base_arm), cand.all_of_arm(cand_arm)
    found, lacking = [], {}
    for measure in {**befores, **afters}:
        before, after = befores.get(measure, NOTHING), afters.get(measure, NOTHING)
        sides = [side for side, one in (("baseline", before), ("candidate", after)) if all(map(math.isnan, one.value))]
        if len(sides) == 1:
            lacking[measure] = sides[0]
        elif not sides and (pairs := pairs_of(measure, before, after)).at:
            found.append(pairs._replace(conversation=[equal.get(one, one) for one in pairs.conversation]))
    return found, lacking


def pairs_of(measure: str, before: Values, after: Values) -> Pairs:
    """The places of ``before`` beside the same ones of ``after``.

    One that a single side has no value of gets what the catalogue says of missing ones, or is left out.
    """
    entry = entry_of(measure)
    missing = entry.missing if entry else None
    others = dict(zip(after.at, after.value, strict=True))
    pairs = Pairs(measure, [], [], [], [])
    filled_baseline = filled_candidate = left_out = 0
    for at, conversation, one in zip(*before, strict=True):
        other = others.get(at, math.nan)
        # What is not a number does not equal itself.
        if one != one or other != other:
            if one != one and other != other:
                continue
            if missing is None:
                left_out += 1
                continue
            filled_baseline += one != one
            filled_candidate += other != other
            one, other = (missing if value != value else value for value in (one, other))
        pairs.at.append(at)
        pairs.conversation.append(conversation)
        pairs.baseline.append(one)
        pairs.candidate.append(other)
    return pairs._replace(filled_baseline=filled_baseline, filled_candidate=filled_candidate, left_out=left_out)


def _differences(pairs: Sequence[Pairs], primary: Sequence[str]) -> tuple[Difference, ...]:
    found = _each(pairs)
    adjusted = holm({one.measure: one.p for one in found if one.measure in primary})
    return tuple(replace(one, p_holm=adjusted.get(one.measure)) for one in found)


def _each(pairs: Sequence[Pairs], *, tested: bool = True) -> list[Difference]:
    """A difference each; their p are found together, and are NaN where nothing is tested."""
    groups = [by_conversation(pair) for pair in pairs]
    p_values = [math.nan] * len(pairs)
    if tested:
        p_values = sign_flips([[sum(values) for values in one.values()] for one in groups])
    return [_difference(*one) for one in zip(pairs, groups, p_values, strict=True)]


def by_conversation(pairs: Pairs) -> dict[str, list[float]]:
    """What changed at the places of each conversation."""
    groups: dict[str, list[float]] = {}
    for conversation, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True):
        groups.setdefault(conversation, []).append(after - before)
    return groups


def _difference(pairs: Pairs, groups: Mapping[str, Sequence[float]], p: float) -> Difference:
    changes = [after - before for before, after in zip(pairs.baseline, pairs.candidate, strict=True)]
    estimate = clustered(groups)
    baseline = sum(pairs.baseline) / len(changes)
    spread = statistics.stdev(changes) if len(changes) > 1 else 0.0
    return Difference(
        pairs.measure,
        len(changes),
        len(groups),
        baseline,
        sum(pairs.candidate) / len(changes),
        estimate,
        p,
        None,
        sum(change > 0 for change in changes),
        sum(change == 0 for change in changes),
        sum(change < 0 for change in changes),
        estimate.mean / baseline if baseline else None,
        estimate.mean / spread if spread else None,
        pairs.filled_baseline,
        pairs.filled_candidate,
        pairs.left_out,
    )


def _slices(run: RunDirectory, pairs: Sequence[Pairs], tested: bool) -> tuple[Slice, ...]:
    """The measures by every subgroup of the golden set, and by conversation; the worst of each measure first.

    What is the same for all, or different for nearly each, is no subgroup.
    """
    gold = read_gold(run)
    names = sorted({name for one in gold.values() for name in one.slices})
    found: list[Slice] = []
    for pair in pairs:
        own: list[Slice] = []
        for name in (*names, "conversation"):
            values = (
                pair.conversation
                if name == "conversation"
                else [gold[at].slices.get(name) if at in gold else None for at in pair.at]
            )
            distinct = sorted({value for value in values if value is not None})
            if 1 < len(distinct) <= MAX_SLICE_VALUES:
                parts = _each([_part(pair, values, value) for value in distinct], tested=tested)
                own += [Slice(name, value, one) for value, one in zip(distinct, parts, strict=True)]
        found += sorted(own, key=_badness)
    return tuple(found)


def _part(pairs: Pairs, values: Sequence[str | None], value: str) -> Pairs:
    rows = [place for place, one in enumerate(values) if one == value]
    return Pairs(
        pairs.measure,
        [pairs.at[row] for row in rows],
        [pairs.conversation[row] for row in rows],
        [pairs.baseline[row] for row in rows],
        [pairs.candidate[row] for row in rows],
    )


def _badness(one: Slice) -> float:
    """Less is worse; of a measure that has no better side, what changes most."""
    mean = one.difference.estimate.mean
    return {"higher": mean, "lower": -mean, "neither": -abs(mean)}[direction(one.difference.measure)]
