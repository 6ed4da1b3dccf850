"""FalseRecall: whether anything was injected where nothing is relevant."""

from __future__ import annotations

from lab.measures.model import ITSELF, YES, ProbeMeasure

MEASURE = ProbeMeasure(
    name="FalseRecall",
    values=lambda probes: (probes.chars > 0).astype(float),
    better="lower",
    range=YES,
    source=ITSELF,
    definition="Something is injected at a probe without relevant memories.",
    probes="without gold",
    sentence="something is injected at {candidate:.0%} of the probes without relevant memories, against {baseline:.0%}",
    order=130,
)
