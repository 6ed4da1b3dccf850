"""FalseRecall: whether anything was injected where nothing is relevant."""

from __future__ import annotations

from lab.measures.inputs import Floats, Probes
from lab.measures.model import ITSELF, YES, ProbeMeasure


def false_recall(probes: Probes) -> Floats:
    """Return 1 where the injected block is not empty, else 0."""
    return (probes.chars > 0).astype(float)


MEASURE = ProbeMeasure(
    name="FalseRecall",
    values=false_recall,
    better="lower",
    range=YES,
    source=ITSELF,
    definition="Something is injected at a probe without relevant memories.",
    probes="without gold",
    sentence="something is injected at {candidate:.0%} of the probes without relevant memories, against {baseline:.0%}",
    order=130,
)
