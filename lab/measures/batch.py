"""Scores of plain rankings in memory: no run directory, no receipts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter

from lab.measures.columns import Floats, Ints, padded
from lab.measures.names import parse
from lab.measures.ranking import Judged, judge

Ranking = Mapping[str, float] | Sequence[str]


def evaluate(
    runs: Mapping[str, Ranking], golds: Mapping[str, Mapping[str, int]], measures: Iterable[str]
) -> dict[str, Floats]:
    """Score rankings against gold: values by measure, one a probe, in the order of ``golds``.

    A ranking is a list of keys, best first, or a mapping of keys to scores. The latter is put in order as trec_eval
    does it: scores in single precision, descending, and of equal ones the last key first.

    A probe without a ranking has found nothing; one without gold scores 0, as in trec_eval. Measures are named
    ``nDCG@10``, ``Success@5``, ``AP`` where the whole ranking counts, or ``P(rel=2)@10`` where what is graded less than
    2 is not relevant; any other name is :class:`UnusableInput`.
    """
    asked = {name: parse(name) for name in measures}
    rankings = [runs.get(probe, ()) for probe in golds]
    unordered = judge(rankings, list(golds.values()))
    grades = _in_order(rankings, unordered.grades)
    judged = {
        level: Judged(grades, unordered.ideal, unordered.sizes, level)
        for level in {one.level for one in asked.values()}
    }
    return {name: one.measure.values(judged[one.level], one.k) for name, one in asked.items()}


def _in_order(rankings: Sequence[Ranking], grades: Floats) -> Floats:
    """The grades of rankings, moved to the places that the scores give them."""
    import numpy as np

    # A list is as good as scores that fall from place to place.
    scores = [one.values() if isinstance(one, Mapping) else range(0, -len(one), -1) for one in rankings]
    sizes: Ints = np.fromiter(map(len, scores), np.int64, len(scores))
    below = -np.fromiter(chain.from_iterable(scores), np.float32, int(sizes.sum()))
    # What fills a row up is not a number: it comes last, and ties with nothing.
    grid = padded(below, sizes, np.nan)
    order = np.argsort(grid, axis=1, kind="stable")
    ranked = np.take_along_axis(grid, order, axis=1)
    for row in np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1)).tolist():
        last_first = sorted(enumerate(rankings[row]), key=itemgetter(1), reverse=True)
        order[row, : sizes[row]] = sorted((place for place, _ in last_first), key=grid[row].__getitem__)
    return np.take_along_axis(grades, order, axis=1)
