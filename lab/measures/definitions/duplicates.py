"""Duplicates: duplicates among the injected memories. 0 for a system that keeps its contract."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.conversation import Turns
from lab.measures.model import ITSELF, SHARE, TurnMeasure


def duplicate_items(turns: Turns) -> Floats:
    """Return the share of injected memories that repeat one before them; NaN for an empty selection."""
    return share(turns.duplicate_items, turns.injected)


MEASURE = TurnMeasure(
    name="Duplicates",
    values=duplicate_items,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the injected memories that say, but for case and spaces, what one before them says. A promise: 0."
    ),
    order=120,
)
