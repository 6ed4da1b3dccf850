"""RepeatRate: how much of a selection the turns before had already."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure
from lab.measures.repetition import WINDOW, Selections


def repeat_rates(chosen: Selections, window: int = WINDOW) -> Floats:
    """Return the share of a turn's items that were injected in any of the ``window`` recall turns before.

    NaN for an empty selection, and for the first turn that has one: nothing could have been repeated there.
    """
    import numpy as np

    again = np.bincount(chosen.turns[chosen.gaps <= window], minlength=len(chosen.sizes))
    started = np.cumsum(chosen.sizes) > chosen.sizes
    return np.where(started, share(again, chosen.sizes), np.nan)


MEASURE = TurnMeasure(
    name="RepeatRate",
    values=lambda turns: repeat_rates(turns.chosen),
    better="lower",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of a turn's items that were injected in any of the 6 recall turns before; null for an empty selection."
    ),
    over_probes="RepeatRate over the judged turns alone.",
    sentence="{candidate:.0%} of the injected items are repeats against {baseline:.0%}",
    order=10,
)
