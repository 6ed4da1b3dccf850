"""AP@k, average precision; its mean is MAP."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first, or_one, running
from lab.measures.model import SHARE, RankMeasure


def average_precision(judged: Judged, k: int) -> Floats:
    """Return the mean, over all relevant memories, of the precision at their rank."""
    import numpy as np

    precisions = judged.hits[:, 1:] / np.arange(1, judged.hits.shape[1])
    return first(running(precisions * judged.relevant), k) / or_one(judged.gold)


MEASURE = RankMeasure(
    name="AP",
    values=average_precision,
    range=SHARE,
    definition=(
        "Mean, over the relevant memories, of the precision at their rank; a memory outside the first k counts as 0."
    ),
    aliases=("map",),
    order=70,
)
