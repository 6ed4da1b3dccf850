"""Paired comparison of two arms: differences, their uncertainty, and the probes that gained or lost a hit.

Beside every hit stands how much of what each arm returned was judged. An unjudged memory counts as not relevant, so an
arm that returns more unjudged memories may look worse than it is, and two arms whose shares differ are not measured
alike (Buckley and Voorhees 2004 on incomplete judgements).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import choices, number
from lab.compare.comparable import equal_in, equal_notes, require_comparable
from lab.compare.statistics import Estimate, clipped, clustered, holm, is_shown, sign_flips
from lab.measures.catalogue import RANKED, canonical, direction, entry_of, is_better, require_measure, widest
from lab.measures.score import MAX_SLICE_VALUES, headlines, more_measures, score_run
from lab.runs.directory import RunDirectory, open_run
from lab.runs.notes import config_notes, trial_of
from lab.runs.scores import Scores, Values, read_gold

# Two arms whose Judged@k differ by more than this are not measured alike.
MOST_APART = 0.05
ROUNDING = 1e-9


def judged_means(scores: Scores, cutoff: int) -> dict[str, float]:
    """Return the mean of Judged@cutoff by arm, for the arms that have values and inject anything at all."""
    name, means = f"Judged@{cutoff}", {}
    scores = scores.only((name, "InjectedItems"))
    for arm in scores.arms:
        of_arm = scores.of_arm(arm)
        items = of_arm.get("InjectedItems")
        values = of_arm[name].value if name in of_arm else []
        if values and (items is None or any(items.value)):
            means[arm] = math.fsum(values) / len(values)
    return means


def apart(shares: Mapping[str, float], cutoff: int) -> str | None:
    """Return a warning if Judged@cutoff of some arms differ by more than :data:`MOST_APART`; else None."""
    if len(shares) < 2 or max(shares.values()) - min(shares.values()) <= MOST_APART + ROUNDING:
        return None
    listed = ", ".join(f"{arm} {number(share)}" for arm, share in shares.items())
    return (
        f"the arms are not judged alike: Judged@{cutoff} is {listed}, and a memory that was not judged counts as not "
        "relevant; judge what they return, as lab golden pool lists it, before you trust a difference in hits"
    )


def as_json(shares: Mapping[str, float], cutoff: int) -> dict[str, Any]:
    """Return plain values for JSON."""
    return {"k": cutoff, "shares": dict(shares), "apart": apart(shares, cutoff)}


class Pairs(NamedTuple):
    """The probes or turns at which a measure compares two arms, with their conversation and both values.

    The lists have equal lengths; ``at`` holds the key of each probe or turn. If a value is missing in one arm only, the
    measure's entry in the catalogue may provide a substitute: ``filled_baseline`` and ``filled_candidate`` count the
    substitutes in each arm. ``left_out`` counts the probes or turns without a substitute, which are not in the lists.
    """

    measure: str
    at: list[str]
    conversation: list[str]
    baseline: list[float]
    candidate: list[float]
    filled_baseline: int = 0
    filled_candidate: int = 0
    left_out: int = 0

    def at_rows(self, rows: Sequence[int]) -> Pairs:
        """Return the pairs at some rows of the lists, without the counts, which are those of all pairs."""
        return Pairs(
            self.measure,
            [self.at[row] for row in rows],
            [self.conversation[row] for row in rows],
            [self.baseline[row] for row in rows],
            [self.candidate[row] for row in rows],
        )


NO_VALUES = Values([], [], [])


def pairs_by_measure(
    base: Scores, base_arm: str, cand: Scores, cand_arm: str, equal: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Pairs], dict[str, str]]:
    """Return the pairs of each measure that has values in both arms, and the side without values for the others.

    Measures are in the baseline's order; a side is ``baseline`` or ``candidate``. ``equal`` maps the name of each
    duplicated conversation to the name of its cluster.
    """
    befores, afters = base.all_of_arm(base_arm), cand.all_of_arm(cand_arm)
    paired, lacking = [], {}
    for measure in {**befores, **afters}:
        before, after = befores.get(measure, NO_VALUES), afters.get(measure, NO_VALUES)
        sides_of = {"baseline": before, "candidate": after}
        sides = [side for side, values in sides_of.items() if all(map(math.isnan, values.value))]
        if len(sides) == 1:
            lacking[measure] = sides[0]
        elif not sides and (pairs := pairs_of(measure, before, after)).at:
            paired.append(pairs._replace(conversation=[equal.get(name, name) for name in pairs.conversation]))
    return paired, lacking


def pairs_of(measure: str, before: Values, after: Values) -> Pairs:
    """Pair the values of ``before`` with those of ``after`` at the same probe or turn.

    A value missing on one side only is replaced by the catalogue's value for missing ones; if it has none, the pair is
    left out.
    """
    entry = entry_of(measure)
    missing = entry.missing if entry else None
    after_values = dict(zip(after.at, after.value, strict=True))
    pairs = Pairs(measure, [], [], [], [])
    filled_baseline = filled_candidate = left_out = 0
    for at, conversation, old in zip(*before, strict=True):
        new = after_values.get(at, math.nan)
        # NaN does not equal itself.
        if old != old or new != new:
            if old != old and new != new:
                continue
            if missing is None:
                left_out += 1
                continue
            filled_baseline += old != old
            filled_candidate += new != new
            old, new = (missing if value != value else value for value in (old, new))
        pairs.at.append(at)
        pairs.conversation.append(conversation)
        pairs.baseline.append(old)
        pairs.candidate.append(new)
    return pairs._replace(filled_baseline=filled_baseline, filled_candidate=filled_candidate, left_out=left_out)


def by_conversation(pairs: Pairs) -> dict[str, list[float]]:
    """Return the differences (candidate minus baseline) of all probes or turns, by conversation."""
    groups: dict[str, list[float]] = {}
    for conversation, before, after in zip(pairs.conversation, pairs.baseline, pairs.candidate, strict=True):
        groups.setdefault(conversation, []).append(after - before)
    return groups


# With more primary measures than this, Holm's correction leaves too little power.
MOST_PRIMARY = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of one measure, candidate minus baseline; both means are over the same ``n`` probes or turns.

    ``relative`` is the mean difference divided by the baseline's mean; ``standardised`` is the mean difference divided
    by the standard deviation of the differences. Each is None if its divisor is 0. ``p_holm`` is None for measures that
    are not primary. :class:`Pairs` describes the last three fields.
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

    @property
    def is_shown(self) -> bool:
        """Return whether the difference is shown (:func:`lab.compare.statistics.is_shown`)."""
        return is_shown(self.estimate, self.p if self.p_holm is None else self.p_holm)

    @property
    def is_better(self) -> bool | None:
        """Return whether the candidate is shown to be better; None if nothing is shown or neither way is better."""
        low, high = self.estimate.low, self.estimate.high
        return is_better(self.measure, low, high) if self.is_shown and low is not None and high is not None else None

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON, with the fields of the estimate inlined."""
        values = asdict(self)
        del values["measure"], values["estimate"]
        return values | self.estimate._asdict()


class Slice(NamedTuple):
    """The difference of a primary measure over a subgroup of probes or turns: exploratory, not Holm-corrected."""

    name: str
    value: str
    difference: Difference


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a paired comparison.

    ``gained`` and ``lost`` are the probes that gained or lost a hit at the cutoff, among ``probes`` that were compared.
    ``primary`` names the measures declared beforehand; only these are Holm-corrected. ``unmeasured`` holds pairs of a
    measure that has values in one arm only and the name of the other arm. ``slices`` holds the primary measures by
    subgroup, worst first. ``sampled_labels`` says how labels were sampled, None if they were recorded. ``embedder``
    holds notes on arms configured for another embedder than the run's and on copies of a conversation, which count
    once. ``trial`` holds the reasons why the results are not evidence. ``judged`` has Judged@cutoff of both arms.
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
    judged: Mapping[str, float] = field(default_factory=dict)

    @property
    def family(self) -> int:
        """Return the size of Holm's family: the number of primary measures that were measured."""
        return sum(difference.p_holm is not None for difference in self.differences)

    @property
    def apart(self) -> str | None:
        """Return a warning if the arms are not judged alike; else None."""
        return apart(self.judged, self.cutoff)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "trial": list(self.trial),
            "judged": as_json(self.judged, self.cutoff),
            "baseline": self.baseline,
            "candidate": self.candidate,
            "cutoff": self.cutoff,
            "primary": list(self.primary),
            "differences": {difference.measure: difference.as_json() for difference in self.differences},
            "gained": list(self.gained),
            "lost": list(self.lost),
            "probes": self.probes,
            "sampled_labels": self.sampled_labels,
            "unmeasured": dict(self.unmeasured),
            "slices": [
                {"slice": name, "value": value, "measure": difference.measure, **difference.as_json()}
                for name, value, difference in self.slices
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
    """Compare two arms of one run, or of two runs (``DIR:ARM``).

    ``primary`` names the measures that decide, at most five; the default is the headlines of the run. ``scores`` are
    those of ``run``, if already computed. With ``tested_slices`` false, slices are faster and their p-values are NaN.
    Raises :class:`NotComparable` if two runs differ in recordings, gold, labels, scopes or turns, and
    :class:`UnusableInput` for an unknown arm or a primary measure that cannot be compared.
    """
    base_run, base_arm = locate(run, baseline)
    cand_run, cand_arm = locate(run, candidate)
    if (base_run.path.resolve(), base_arm) == (cand_run.path.resolve(), cand_arm):
        raise UnusableInput(f"baseline and candidate are both {baseline!r}; name two different arms")
    require_comparable(base_run, cand_run)
    declared = tuple(dict.fromkeys(canonical(name) for name in primary))
    if len(declared) > MOST_PRIMARY:
        raise UnusableInput(f"{len(declared)} primary measures: {MOST_PRIMARY} at most; name only those that decide")
    for name in declared:
        require_measure(name, "--primary")
    cutoff = min(base_run.max_items[base_arm], cand_run.max_items[cand_arm])
    extra = more_measures(declared, [*base_run.max_items.values(), *cand_run.max_items.values()])
    base_scores = scores if scores is not None and base_run is run and not extra else score_run(base_run, extra)
    cand_scores = base_scores if cand_run is base_run else score_run(cand_run, extra)
    pairs, lacking = pairs_by_measure(base_scores, base_arm, cand_scores, cand_arm, equal_in(base_run))
    by_measure = {pair.measure: pair for pair in pairs}
    for name in declared:
        if name not in by_measure:
            arms = {"baseline": baseline, "candidate": candidate}
            no_value = (
                f"{arms[lacking[name]]} has no value"
                if name in lacking
                else "no probe or turn has a value in both arms"
            )
            too_short = _too_short(name, {baseline: (base_run, base_arm), candidate: (cand_run, cand_arm)})
            raise UnusableInput(f"--primary {name}: {too_short or no_value}; `lab score` lists a run's measures")
    chosen = declared or headlines(cutoff)
    hits = by_measure.get(f"Success@{cutoff}", Pairs("", [], [], [], []))
    changes = list(zip(hits.at, hits.baseline, hits.candidate, strict=True))
    return Comparison(
        baseline,
        candidate,
        cutoff,
        chosen,
        differences_of(pairs, chosen),
        tuple(at for at, before, after in changes if after > before),
        tuple(at for at, before, after in changes if after < before),
        len(changes),
        tuple((name, {"baseline": baseline, "candidate": candidate}[side]) for name, side in lacking.items()),
        _slices(base_run, [by_measure[name] for name in chosen if name in by_measure], tested_slices) if slices else (),
        base_run.labels if base_run.labels_are_sampled else None,
        _notes(base_run, base_arm, cand_run, cand_arm),
        trial_of(base_run, cand_run),
        {
            name: shares[arm]
            for name, arm, of in ((baseline, base_arm, base_scores), (candidate, cand_arm, cand_scores))
            if arm in (shares := judged_means(of, cutoff))
        },
    )


def _notes(base_run: RunDirectory, base_arm: str, cand_run: RunDirectory, cand_arm: str) -> tuple[str, ...]:
    """Return notes on origins left out, arms configured for another embedder, and copies of conversations."""
    copies = base_run.manifest.resolved.equal_conversations
    equal = (*dict.fromkeys((*base_run.manifest.notes, *cand_run.manifest.notes)), *equal_notes(copies))
    if base_run is cand_run:
        return (*config_notes(base_run.manifest.resolved, (base_arm, cand_arm)), *equal)
    both = ((base_run, base_arm), (cand_run, cand_arm))
    notes = dict.fromkeys(note for run, arm in both for note in config_notes(run.manifest.resolved, (arm,)))
    return (*notes, *equal)


def _too_short(measure: str, arms: Mapping[str, tuple[RunDirectory, str]]) -> str | None:
    """Explain that the cutoff of the measure exceeds the number of items returned; None if it does not."""
    stem, _, cutoff = measure.partition("@")
    of_ranking = stem.partition("(rel=")[0] in RANKED
    lengths = {name: (run.depths if of_ranking else run.max_items)[arm] for name, (run, arm) in arms.items()}
    too_short = {name: length for name, length in lengths.items() if cutoff.isdigit() and int(cutoff) > length}
    if not too_short:
        return None
    subject = "these arms return" if len(too_short) == len(arms) else f"{next(iter(too_short))} returns"
    return f"{subject} at most {max(too_short.values())} items"


def paired_differences(
    scores: Scores,
    baseline: str,
    candidate: str,
    primary: Sequence[str],
    equal: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Difference]:
    """Return the differences of two arms of one run by measure; ``equal`` is that of :func:`pairs_by_measure`."""
    pairs, _ = pairs_by_measure(scores, baseline, scores, candidate, equal)
    return {difference.measure: difference for difference in differences_of(pairs, primary)}


def locate(run: RunDirectory, name: str) -> tuple[RunDirectory, str]:
    """Resolve ``ARM`` in this run, or ``DIR:ARM`` in another run; raise :class:`UnusableInput` if there is none."""
    if name in run.arms:
        return run, name
    folder, _, arm = name.rpartition(":")
    if not folder:
        raise UnusableInput(f"{run.path}: has no arm {name!r}; {choices(name, run.arms, 'it has')}")
    other = run if Path(folder).resolve() == run.path.resolve() else open_run(Path(folder))
    if other is not run and run.left_out:
        raise UnusableInput(
            f"{run.path}: --allow-failed leaves out turns that {folder} includes, so they cannot be compared"
        )
    if arm not in other.arms:
        raise UnusableInput(f"{other.path}: has no arm {arm!r}; {choices(arm, other.arms, 'it has')}")
    return other, arm


def differences_of(pairs: Sequence[Pairs], primary: Sequence[str]) -> tuple[Difference, ...]:
    """Return the difference of each measure, with Holm-adjusted p-values for those of ``primary``."""
    differences = _each(pairs)
    adjusted = holm({difference.measure: difference.p for difference in differences if difference.measure in primary})
    return tuple(replace(difference, p_holm=adjusted.get(difference.measure)) for difference in differences)


def _each(pairs: Sequence[Pairs], *, tested: bool = True) -> list[Difference]:
    """Return the difference of each measure; p-values are computed in one pass, and are NaN unless ``tested``."""
    groups = [by_conversation(pair) for pair in pairs]
    p_values = [math.nan] * len(pairs)
    if tested:
        p_values = sign_flips([[sum(values) for values in group.values()] for group in groups])
    return [_difference(pair, group, p) for pair, group, p in zip(pairs, groups, p_values, strict=True)]


def _difference(pairs: Pairs, groups: Mapping[str, Sequence[float]], p: float) -> Difference:
    changes = [after - before for before, after in zip(pairs.baseline, pairs.candidate, strict=True)]
    estimate = clipped(clustered(groups), widest(pairs.measure))
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
    """Return the differences by every subgroup of the golden set and by conversation, worst first for each measure.

    A slice with one value, or with more than ``MAX_SLICE_VALUES``, is skipped.
    """
    gold = read_gold(run)
    names = sorted({name for probe in gold.values() for name in probe.slices})
    slices: list[Slice] = []
    for pair in pairs:
        of_measure: list[Slice] = []
        for name in (*names, "conversation"):
            values = (
                pair.conversation
                if name == "conversation"
                else [gold[at].slices.get(name) if at in gold else None for at in pair.at]
            )
            distinct = sorted({value for value in values if value is not None})
            if 1 < len(distinct) <= MAX_SLICE_VALUES:
                rows = [[row for row, other in enumerate(values) if other == value] for value in distinct]
                parts = _each([pair.at_rows(part) for part in rows], tested=tested)
                of_measure += [Slice(name, value, part) for value, part in zip(distinct, parts, strict=True)]
        slices += sorted(of_measure, key=_badness)
    return tuple(slices)


def _badness(part: Slice) -> float:
    """Return a sort key, worst first; if neither direction is better, the largest change comes first."""
    mean = part.difference.estimate.mean
    return {"higher": mean, "lower": -mean, "neither": -abs(mean)}[direction(part.difference.measure)]
