"""DistinctShare: how varied the recent selections are."""

from __future__ import annotations

from lab.measures.inputs import NEXT_MEMORY, WINDOW, Floats, Selections, share, slots_of
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def distinct_share(chosen: Selections, window: int = WINDOW) -> Floats:
    """Return the distinct memories of the last ``window`` selections, divided by their slots; NaN without slots."""
    import numpy as np

    distinct = np.zeros(len(chosen.sizes) + window, np.int64)
    # A sight (a memory at a turn) is the memory's last in every window that ends before its next sight.
    until = np.append(chosen.gaps[1:], NEXT_MEMORY)[: len(chosen.sights)]
    for later in range(window):
        distinct += np.bincount(chosen.turns[until > later] + later, minlength=len(distinct))
    return share(distinct[: len(chosen.sizes)], slots_of(chosen.sizes, window))


MEASURE = TurnMeasure(
    name="DistinctShare",
    values=lambda turns: distinct_share(turns.chosen),
    better="higher",
    range=SHARE,
    source=SEED_000,
    definition="Distinct memories of the last 6 selections, this one included, divided by the slots that they filled.",
    order=30,
)
