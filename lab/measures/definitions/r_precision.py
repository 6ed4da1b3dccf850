"""Rprec, R-precision."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import SHARE, RankMeasure
from lab.measures.ranking import Judged, or_one


def r_precision(judged: Judged, k: int) -> Floats:
    """Return the precision at as many of the first k places as there are relevant memories."""
    import numpy as np

    places = np.minimum(judged.gold, min(k, judged.found.shape[1] - 1))
    return np.take_along_axis(judged.found, places[:, None], axis=1)[:, 0] / or_one(judged.gold)


MEASURE = RankMeasure(
    name="Rprec",
    values=r_precision,
    range=SHARE,
    definition="Precision at as many places as there are relevant memories.",
    cut=False,
    order=90,
)
