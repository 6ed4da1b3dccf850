"""Rprec, R-precision."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, or_one
from lab.measures.model import SHARE, RankMeasure


def r_precision(judged: Judged, k: int) -> Floats:
    """Return the precision at rank R, the number of relevant memories, at most k."""
    import numpy as np

    ranks = np.minimum(judged.gold, min(k, judged.hits.shape[1] - 1))
    return np.take_along_axis(judged.hits, ranks[:, None], axis=1)[:, 0] / or_one(judged.gold)


MEASURE = RankMeasure(
    name="Rprec",
    values=r_precision,
    range=SHARE,
    definition="Precision at rank R, the number of relevant memories.",
    cut=False,
    order=90,
)
