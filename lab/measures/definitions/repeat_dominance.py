"""RepeatDominance: the Berger-Parker index of the recent selections.

Seed 000 requires (criterion 2) that the same must items do not dominate consecutive turns, and counts repeats over
repeatWindowTurns = 6 turns. It gives no formula, so dominance is the index by that name (Berger and Parker 1970): the
share of the most frequent one. ``MustRepeat`` counts must items alone, without exact hits.
"""

from __future__ import annotations

from lab.measures.inputs import WINDOW, Floats, Selections, share, slots_of
from lab.measures.model import SHARE, TurnMeasure


def dominance(chosen: Selections, window: int = WINDOW) -> Floats:
    """Return the share of the slots of the last ``window`` selections that the most frequent memory fills.

    A selection lists a memory once, so the maximum is 1 / mean selection size. NaN where all selections are empty.
    """
    import numpy as np

    most = np.zeros(len(chosen.sizes) + window, np.int64)
    for later in range(window):
        # Count each sight as its memory's last in the window that ends ``later`` turns after it.
        earlier = np.searchsorted(chosen.sights, chosen.sights + later - window, side="right")
        np.maximum.at(most, chosen.turns + later, np.arange(1, len(earlier) + 1) - earlier)
    return share(most[: len(chosen.sizes)], slots_of(chosen.sizes, window))


MEASURE = TurnMeasure(
    name="RepeatDominance",
    values=lambda turns: dominance(turns.chosen),
    better="lower",
    range=SHARE,
    source="Berger and Parker 1970",
    definition="Share of the slots of the last 6 selections, this one included, that the most frequent memory fills.",
    order=20,
)
