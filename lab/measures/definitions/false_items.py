"""FalseItems: how many memories were injected where none is relevant."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, ProbeMeasure

MEASURE = ProbeMeasure(
    name="FalseItems",
    values=lambda probes: probes.items.astype(float),
    better="lower",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories injected at a probe without relevant memories.",
    probes="without gold",
    order=140,
)
