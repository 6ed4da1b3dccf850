"""RR@k, reciprocal rank; its mean is MRR."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first
from lab.measures.model import SHARE, RankMeasure


def reciprocal_rank(judged: Judged, k: int) -> Floats:
    """Return 1 / rank of the first relevant memory, 0 if none is among the first k."""
    import numpy as np

    # The rank of the first hit is the number of columns (0, 1, 2 …) without hits.
    rank = np.count_nonzero(judged.hits == 0, axis=1)
    return np.where(first(judged.hits, k) > 0, 1.0 / rank, 0.0)


MEASURE = RankMeasure(
    name="RR",
    values=reciprocal_rank,
    range=SHARE,
    definition="1 / rank of the first relevant memory; 0 if none is among the first k.",
    aliases=("mrr",),
    order=60,
)
