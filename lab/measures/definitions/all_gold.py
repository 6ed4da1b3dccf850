"""AllGold@k: whether nothing that is relevant is missing."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import ITSELF, YES, RankMeasure
from lab.measures.ranking import Judged, first


def all_gold(judged: Judged, k: int) -> Floats:
    """Return 1 where every relevant memory is among the first k, else 0; 0 where there is none."""
    import numpy as np

    return np.where((judged.gold > 0) & (first(judged.found, k) == judged.gold), 1.0, 0.0)


MEASURE = RankMeasure(
    name="AllGold",
    values=all_gold,
    range=YES,
    source=ITSELF,
    definition="Every relevant memory is among the first k; 0 where more are wanted than k.",
    order=30,
)
