"""FalseItems: how much was injected where nothing is needed."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.conversation import Probes
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
    definition="Memories injected where nothing is needed; of the probes that want nothing.",
    probes="without gold",
    order=140,
)
