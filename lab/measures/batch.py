"""Scores of plain rankings in memory: no run directory, no receipts."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING

from lab.errors import UnusableInput
from lab.measures.columns import padded
from lab.measures.ranking import KNOWN, Judged, Measure, judge, precision

if TYPE_CHECKING:
    from lab.measures.columns import Floats, Ints

Ranking = Mapping[str, float] | Sequence[str]


def evaluate(
    runs: Mapping[str, Ranking], golds: Mapping[str, Mapping[str, int]], measures: Iterable[str]
) -> dict[str, Floats]:
    """Score rankings against gold: values by measure, one a probe, in the order of ``golds``.

    A ranking is a list of keys, best first, or a mapping of keys to scores. The latter is put in order as trec_eval
    does it: scores in single precision, descending, and of equal ones the last key first.

    A probe without a ranking has found nothing; one without gold scores 0, as in trec_eval. Measures are named
    ``nDCG@10``, ``Success@5``, or ``AP`` where the whole ranking counts; any other is :class:`UnusableInput`.
    """
    asked = {name: _parse(name) for name in measures}
    rankings = [runs.get(probe, ()) for probe in golds]
    unordered = judge(rankings, list(golds.values()))
    judged = Judged(_in_order(rankings, unordered.gains), unordered.ideal)
    return {name: measure(judged, k) for name, (measure, k) in asked.items()}


def _parse(name: str) -> tuple[Measure, int]:
    """``nDCG@10`` as a measure and its cutoff; without one, all places there are."""
    stem, at, cutoff = name.partition("@")
    if at and cutoff.isascii() and cutoff.isdigit() and int(cutoff) and stem in KNOWN:
        return KNOWN[stem], int(cutoff)
    # A share of places needs a number of places.
    whole = {known: measure for known, measure in KNOWN.items() if measure is not precision}
    if not at and stem in whole:
        return whole[stem], sys.maxsize
    raise UnusableInput(
        f"no measure {name!r}; known with a cutoff, as in P@10: {', '.join(KNOWN)}; without: {', '.join(whole)}"
    )


def _in_order(rankings: Sequence[Ranking], gains: Floats) -> Floats:
    """The gains of rankings, moved to the places that the scores give them."""
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
    return np.take_along_axis(gains, order, axis=1)
