"""RepeatRate: the share of a selection that recent turns already injected."""

from __future__ import annotations

from lab.measures.inputs import WINDOW, Floats, Selections, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def repeat_rates(chosen: Selections, window: int = WINDOW) -> Floats:
    """Return the share of a turn's items that were injected in any of the ``window`` preceding recall turns.

    NaN for an empty selection, and for the first one that is not empty, which cannot repeat anything.
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
        "Share of a turn's items that were injected in any of the 6 preceding recall turns; null for an empty "
        "selection and for the first that is not empty."
    ),
    over_probes="RepeatRate over judged turns only.",
    sentence="{candidate:.0%} of the injected items are repeats, against {baseline:.0%}",
    order=10,
)
