"""Jaccard: how alike neighbouring selections are."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.model import SHARE, TurnMeasure
from lab.measures.repetition import Selections


def neighbour_jaccard(chosen: Selections) -> Floats:
    """Return how alike each selection and the one before are; NaN for the first, and where both are empty."""
    import numpy as np

    both = np.bincount(chosen.turns[chosen.gaps == 1], minlength=len(chosen.sizes))
    alike = share(both, chosen.sizes + np.roll(chosen.sizes, 1) - both)
    alike[:1] = np.nan
    return alike


MEASURE = TurnMeasure(
    name="Jaccard",
    values=lambda turns: neighbour_jaccard(turns.chosen),
    better="lower",
    range=SHARE,
    source="Jaccard 1901",
    definition="How alike this selection and the one before are: what both hold over what either holds.",
    order=40,
)
