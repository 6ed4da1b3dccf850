"""FalseItems: how many memories were injected where none is relevant."""

from __future__ import annotations

from lab.measures.inputs import Floats, Probes
from lab.measures.model import COUNT, ITSELF, ProbeMeasure


def false_items(probes: Probes) -> Floats:
    """Return how many memories were injected."""
    return probes.items.astype(float)


MEASURE = ProbeMeasure(
    name="FalseItems",
    values=false_items,
    better="lower",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories injected at a probe without relevant memories.",
    probes="without gold",
    order=140,
)
