"""Score plain rankings in memory, without a run directory."""

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
    """Score rankings against gold; return values by measure, one for each probe, in the order of ``golds``.

    A ranking is a list of keys, best first, or a mapping of keys to scores, which is sorted as trec_eval sorts: scores
    in single precision, descending, and among equal scores the last key first.

    A probe without a ranking counts as an empty one; a probe without gold scores 0, as in trec_eval. Measures are named
    ``nDCG@10``, ``Success@5``, ``AP`` (over the complete ranking), or ``P(rel=2)@10`` (grades below 2 are not
    relevant). Raises :class:`UnusableInput` for any other name.
    """
    parsed = {name: parse(name) for name in measures}
    rankings = [runs.get(probe, ()) for probe in golds]
    unordered = judge(rankings, list(golds.values()))
    grades = _in_order(rankings, unordered.grades)
    judged = {
        level: Judged(grades, unordered.ideal, unordered.sizes, level)
        for level in {measure.level for measure in parsed.values()}
    }
    return {name: request.measure.values(judged[request.level], request.k) for name, request in parsed.items()}


def _in_order(rankings: Sequence[Ranking], grades: Floats) -> Floats:
    """Return the grades of rankings, ordered by their scores."""
    import numpy as np

    # A list counts as scores that decrease with rank.
    scores = [ranking.values() if isinstance(ranking, Mapping) else range(0, -len(ranking), -1) for ranking in rankings]
    sizes: Ints = np.fromiter(map(len, scores), np.int64, len(scores))
    negated = -np.fromiter(chain.from_iterable(scores), np.float32, int(sizes.sum()))
    # Padding with NaN sorts last and ties with nothing.
    grid = padded(negated, sizes, np.nan)
    order = np.argsort(grid, axis=1, kind="stable")
    ranked = np.take_along_axis(grid, order, axis=1)
    for row in np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1)).tolist():
        last_first = sorted(enumerate(rankings[row]), key=itemgetter(1), reverse=True)
        order[row, : sizes[row]] = sorted((position for position, _ in last_first), key=grid[row].__getitem__)
    return np.take_along_axis(grades, order, axis=1)
