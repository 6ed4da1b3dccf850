"""LongestStreak: how long one memory keeps coming back."""

from __future__ import annotations

from lab.measures.model import ITSELF, ConversationMeasure
from lab.measures.repetition import Selections


def longest_streak(chosen: Selections) -> float:
    """Return the most recall turns in a row in which one memory was injected; NaN where none ever was."""
    import numpy as np

    begins = np.flatnonzero(chosen.gaps != 1)
    return float(np.diff(begins, append=len(chosen.sights)).max()) if len(begins) else np.nan


MEASURE = ConversationMeasure(
    name="LongestStreak",
    values=lambda turns: longest_streak(turns.chosen),
    better="lower",
    range="1 …",
    source=ITSELF,
    definition="Most recall turns in a row in which one memory was injected; null where none ever was.",
    order=10,
)
