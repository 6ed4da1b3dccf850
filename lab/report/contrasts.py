"""Any two arms in any measure: the difference, its interval, and the differences of each conversation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from lab.compare.arms import ArmMean, arm_means
from lab.compare.comparable import equal_in
from lab.compare.paired import NO_VALUES, Difference, Pairs, by_conversation, differences_of, pairs_of
from lab.measures.catalogue import direction
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
        import numpy as np

        known = [place for place, name in enumerate(scores.measures) if name in set(measures)]
        self._scores = scores.where(np.isin(scores.measure, known))
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
