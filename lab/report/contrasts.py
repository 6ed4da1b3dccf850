"""Contrasts of any two arms in any measure, and what a report makes of them: the tiles and the table of arms."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.base.formatting import counted, sentence
from lab.compare.arms import ArmMean, arm_means
from lab.compare.comparable import equal_in
from lab.compare.paired import NO_VALUES, Comparison, Difference, Pairs, by_conversation, differences_of, pairs_of
from lab.gate.line import FAIL, deciding
from lab.gate.verdict import Verdict
from lab.measures.catalogue import direction, in_words
from lab.report import charts
from lab.report.units import between, change_of, is_share, mean_of, span_of
from lab.runs.directory import RunDirectory
from lab.runs.scores import Scores, Values


class Contrast(NamedTuple):
    """The difference of two arms in one measure, and the mean difference of each conversation."""

    difference: Difference
    by_conversation: Mapping[str, float]


class Changed(NamedTuple):
    """The probes or turns at which an arm is worse than ``baseline`` in one measure, and how many are better."""

    measure: str
    baseline: str
    worse: Sequence[str]
    better: int


class Contrasts:
    """The contrasts of a run's arms in some measures; p-values are not adjusted."""

    def __init__(self, run: RunDirectory, scores: Scores, measures: Iterable[str]) -> None:
        self._scores = scores.only(set(measures))
        self._values = {arm: self._scores.all_of_arm(arm) for arm in run.arms}
        self._equal = equal_in(run)

    def of(self, baseline: str, candidate: str, measure: str) -> Contrast | None:
        """Return the contrast of two arms; None if one has no values."""
        pairs = self.pairs(baseline, candidate, measure)
        if pairs is None:
            return None
        (difference,) = differences_of([pairs], ())
        groups = by_conversation(pairs)
        return Contrast(difference, {name: sum(values) / len(values) for name, values in groups.items()})

    def pairs(self, baseline: str, candidate: str, measure: str) -> Pairs | None:
        """Return the paired values of two arms; None if one has none."""
        sides = [self._of(arm, measure) for arm in (baseline, candidate)]
        if not all(any(value == value for value in side.value) for side in sides):
            return None
        pairs = pairs_of(measure, *sides)
        if not pairs.at:
            return None
        return pairs._replace(conversation=[self._equal.get(name, name) for name in pairs.conversation])

    def changed(self, baseline: str, candidate: str, measure: str) -> Changed | None:
        """Return where the candidate is worse than the baseline; None if there is nothing to compare."""
        pairs = self.pairs(baseline, candidate, measure)
        if pairs is None:
            return None
        sign = -1.0 if direction(measure) == "lower" else 1.0
        moves = [
            (at, sign * (after - before))
            for at, before, after in zip(pairs.at, pairs.baseline, pairs.candidate, strict=True)
        ]
        return Changed(measure, baseline, [at for at, move in moves if move < 0], sum(move > 0 for _, move in moves))

    def means(self, measures: Sequence[str], contenders: Collection[str]) -> dict[str, dict[str, ArmMean]]:
        """Return the mean of each measure by arm; one of ``contenders`` is the best."""
        known = {arm: self._scores.of_arm(arm) for arm in self._values}
        return arm_means(measures, known, contenders, self._equal)

    def _of(self, arm: str, measure: str) -> Values:
        return self._values[arm].get(measure, NO_VALUES)


class Cell(NamedTuple):
    """A mean and its interval as text, the number to sort by, and whether it is ``best`` or ``level`` with the best."""

    text: str
    interval: str = ""
    value: float | None = None
    mark: str = ""


class ArmsTable(NamedTuple):
    """The columns with the direction that is better, and one row of cells for each arm."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    is_marked: bool


def arms_table(run: RunDirectory, contrasts: Contrasts, measures: Sequence[str]) -> ArmsTable:
    """Return the means of all arms; an arm that reads the golden set is never the best.

    Marks are those of :func:`lab.compare.arms.arm_means`, as in the viewer.
    """
    means = contrasts.means(measures, [arm for arm in run.arms if not run.manifest.arm(arm).needs_gold])
    columns = [[_cell(measure, means[measure].get(arm)) for arm in run.arms] for measure in measures]
    rows = [(arm, [column[place] for column in columns]) for place, arm in enumerate(run.arms)]
    marked = any(cell.mark for _, cells in rows for cell in cells)
    return ArmsTable([(measure, direction(measure)) for measure in measures], rows, marked)


def _cell(measure: str, mean: ArmMean | None) -> Cell:
    if mean is None:
        return Cell("–")
    interval = "" if mean.low is None or mean.high is None else between(measure, mean.low, mean.high)
    return Cell(mean_of(measure, mean.mean), interval, mean.mean, mean.standing)


HARMS = (
    *("StaleRecall", "FalseRecall", "HardRules", "WrongScope"),
    *("Leaks", "EchoShare", "Future", "Unescaped", "Duplicates"),
)
CONTROLS = ("hybrid", "random")


class Tile(NamedTuple):
    """One tile: what it is about, the change as a large number, what it means, its interval, and its distribution."""

    title: str
    measure: str = ""
    change: str = "–"
    word: str = "not measured"
    state: str = ""
    says: str = ""
    interval: str = ""
    chart: str = ""


def harms_at(cutoff: int) -> tuple[str, ...]:
    """Return the measures that count as harms, at a cutoff where they have one."""
    return (f"Forbidden@{cutoff}", *HARMS)


def harm_of(comparison: Comparison, verdict: Verdict | None) -> Difference | None:
    """Return the harm to show: the first that fails the policy, else the largest that is shown, else the largest."""
    known = {
        difference.measure: difference
        for difference in comparison.differences
        if difference.measure in harms_at(comparison.cutoff)
    }
    for line in deciding(verdict.lines, FAIL) if verdict else ():
        if line.measure in known and not line.against and not line.slice:
            return known[line.measure]
    return max(known.values(), key=lambda one: (one.is_better is False, _harm(one)), default=None)


def tiles_of(
    arms: Sequence[str], comparison: Comparison | None, contrasts: Contrasts, harm: Difference | None
) -> list[Tile]:
    """Return the tiles; one that cannot be filled says why."""
    if comparison is None:
        return []
    base, cand = comparison.baseline, comparison.candidate
    hits = f"Success@{comparison.cutoff}"
    shown = {difference.measure: difference for difference in comparison.differences}
    benefit = Tile("Benefit", says=f"No probe has relevant memories in both arms, so {hits} has no value.")
    if hits in shown:
        contrast = contrasts.of(base, cand, hits)
        benefit = _tile("Benefit", shown[hits], contrast)
    worst = Tile(
        "Harm",
        says="The run has no value of any harm: no memory is judged misleading, is superseded, or is a hard rule.",
    )
    if harm:
        number = sum(difference.measure in harms_at(comparison.cutoff) for difference in comparison.differences)
        worst = _tile("Harm", harm, contrasts.of(base, cand, harm.measure), f"largest of {counted(number, 'harm')}")
    return [benefit, worst, *(_against(control, arms, cand, hits, contrasts) for control in CONTROLS)]


def _against(control: str, arms: Sequence[str], candidate: str, measure: str, contrasts: Contrasts) -> Tile:
    title = f"Against {control}"
    if control == candidate:
        return Tile(title, word="the candidate itself", says=f"{control} is the candidate of this comparison.")
    if control not in arms:
        return Tile(title, word="not in this run", says=f"Add it to the replay with --arm {control}.")
    contrast = contrasts.of(control, candidate, measure)
    if contrast is None:
        return Tile(title, says=f"{measure} has no value in both arms.")
    return _tile(title, contrast.difference, contrast)


def _tile(title: str, difference: Difference, contrast: Contrast | None, about: str = "") -> Tile:
    measure, estimate = difference.measure, difference.estimate
    word = {True: "better", False: "worse", None: "no difference shown"}[difference.is_better]
    if estimate.low is None and (difference.wins or difference.losses):
        word = "too few conversations"
    elif not difference.wins and not difference.losses:
        word = "identical everywhere"
    state = {True: "better", False: "worse", None: ""}[difference.is_better]
    clause = in_words(measure, difference.candidate, difference.baseline)
    means = f"{mean_of(measure, difference.candidate)} against {mean_of(measure, difference.baseline)}"
    side = "" if direction(measure) == "neither" else f", {direction(measure)} is better"
    says = sentence(clause) if clause else f"{means}{side}."
    interval = f"{counted(difference.conversations, 'conversation')}: no interval"
    if estimate.low is not None:
        interval = f"95 % interval {span_of(measure, estimate.low, estimate.high)}"
    chart = ""
    if contrast:
        values = list(contrast.by_conversation.values())
        chart = charts.strip(values, estimate.mean, estimate.low, estimate.high, difference.is_better)
    change = change_of(measure, estimate.mean, unit=is_share(measure))
    return Tile(title, f"{measure}{f', {about}' if about else ''}", change, word, state, says, interval, chart)


def _harm(difference: Difference) -> float:
    mean = difference.estimate.mean
    return -mean if direction(difference.measure) == "higher" else mean
