"""InjectedItems: how many memories a turn injects."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, TurnMeasure

MEASURE = TurnMeasure(
    name="InjectedItems",
    values=lambda turns: turns.injected.astype(float),
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories injected.",
    order=90,
)
