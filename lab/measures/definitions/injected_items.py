"""InjectedItems: how many memories a turn injects."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, ITSELF, TurnMeasure


def injected_items(turns: Turns) -> Floats:
    """Return how many memories were injected."""
    return turns.injected.astype(float)


MEASURE = TurnMeasure(
    name="InjectedItems",
    values=injected_items,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories injected.",
    order=90,
)
