"""Duplicates: repetitions among the injected memories. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import ITSELF, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="Duplicates",
    values=lambda turns: share(turns.duplicate_items, turns.injected),
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition=(
        "Share of the injected memories with the text of an earlier one, ignoring case and spaces. Expected: 0."
    ),
    order=120,
)
