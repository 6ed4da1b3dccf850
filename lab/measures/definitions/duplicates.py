"""Duplicates: repetitions among the injected memories. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import ITSELF, SHARE, TurnMeasure


def duplicate_items(turns: Turns) -> Floats:
    """Return the share of injected memories that repeat an earlier one; NaN for an empty selection."""
    return share(turns.duplicate_items, turns.injected)


MEASURE = TurnMeasure(
    name="Duplicates",
    values=duplicate_items,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the injected memories with the text of an earlier one, ignoring case and spaces. Expected: 0."
    ),
    order=120,
)
