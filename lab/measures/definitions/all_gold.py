"""AllGold@k: whether every relevant memory is returned."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first
from lab.measures.model import ITSELF, YES, RankMeasure


def all_gold(judged: Judged, k: int) -> Floats:
    """Return 1 where every relevant memory is among the first k, else 0; 0 where no memory is relevant."""
    import numpy as np

    return np.where((judged.gold > 0) & (first(judged.hits, k) == judged.gold), 1.0, 0.0)


MEASURE = RankMeasure(
    name="AllGold",
    values=all_gold,
    range=YES,
    source=ITSELF,
    definition="Every relevant memory is among the first k; 0 where more than k are relevant.",
    order=30,
)
