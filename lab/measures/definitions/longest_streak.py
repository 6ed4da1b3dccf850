"""LongestStreak: how many turns in a row inject the same memory."""

from __future__ import annotations

from lab.measures.inputs import Selections
from lab.measures.model import ITSELF, ConversationMeasure


def longest_streak(chosen: Selections) -> float:
    """Return the largest number of consecutive recall turns that injected the same memory; NaN if none was injected."""
    import numpy as np

    begins = np.flatnonzero(chosen.gaps != 1)
    return float(np.diff(begins, append=len(chosen.sights)).max()) if len(begins) else np.nan


MEASURE = ConversationMeasure(
    name="LongestStreak",
    values=lambda turns: longest_streak(turns.chosen),
    better="lower",
    range="1 …",
    source=ITSELF,
    definition="Largest number of consecutive recall turns that inject the same memory; null if none is ever injected.",
    order=10,
)
