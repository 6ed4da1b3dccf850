"""HitsPer1kTokens: how many relevant memories the injected block has for its tokens."""

from __future__ import annotations

from lab.measures.inputs import Floats, Probes
from lab.measures.model import COUNT, ProbeMeasure


def per_1k_tokens(probes: Probes) -> Floats:
    """Return the injected relevant memories for 1,000 tokens of the block; 0 where it is empty."""
    import numpy as np

    found = np.count_nonzero(probes.injected.relevant, axis=1)
    return np.asarray(1000 * found / np.maximum(probes.tokens, 1.0))


MEASURE = ProbeMeasure(
    name="HitsPer1kTokens",
    values=per_1k_tokens,
    better="higher",
    range=COUNT,
    source="seed 002",
    definition="Injected relevant memories for 1,000 estimated tokens of the block; 0 for an empty block.",
    order=175,
)
