"""Jaccard: similarity of consecutive selections."""

from __future__ import annotations

from lab.measures.inputs import Floats, Selections, share
from lab.measures.model import SHARE, TurnMeasure


def neighbour_jaccard(chosen: Selections) -> Floats:
    """Return the Jaccard index of each selection and the one before; NaN for the first, and where both are empty."""
    import numpy as np

    both = np.bincount(chosen.turns[chosen.gaps == 1], minlength=len(chosen.sizes))
    index = share(both, chosen.sizes + np.roll(chosen.sizes, 1) - both)
    index[:1] = np.nan
    return index


MEASURE = TurnMeasure(
    name="Jaccard",
    values=lambda turns: neighbour_jaccard(turns.chosen),
    better="lower",
    range=SHARE,
    source="Jaccard 1901",
    definition="Jaccard index of this selection and the one before: memories in both, divided by memories in either.",
    order=40,
)
