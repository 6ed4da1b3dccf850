"""MustRepeat: the share of must_remember items that recent turns already injected."""

from __future__ import annotations

from lab.measures.inputs import WINDOW, Floats, Turns, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def must_repeat(turns: Turns, window: int = WINDOW) -> Floats:
    """Return the share of the counted must items that any of the ``window`` preceding recall turns injected.

    Items that are exempt from repeat suppression (exact hits, hard rules) or pinned are not counted. NaN where no item
    is counted, and at turns before which nothing was injected.
    """
    import numpy as np

    chosen, must = turns.chosen, turns.must
    counted = np.isin(chosen.sights, must.sights, assume_unique=True)
    again = np.bincount(chosen.turns[(chosen.gaps <= window) & counted], minlength=len(must.sizes))
    started = np.cumsum(chosen.sizes) > chosen.sizes
    return np.where(started, share(again, must.sizes), np.nan)


MEASURE = TurnMeasure(
    name="MustRepeat",
    values=must_repeat,
    better="lower",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of a turn's must_remember items that any of the 6 preceding recall turns injected. Items that are an "
        "exact hit, a hard rule or pinned are not counted; null without a counted item."
    ),
    sentence="{candidate:.0%} of the must items that are not exact hits are repeats, against {baseline:.0%}",
    order=12,
)
