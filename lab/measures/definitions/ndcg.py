"""nDCG@k with linear gain and a log2 discount, as ndcg_cut of trec_eval."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import SHARE, RankMeasure
from lab.measures.ranking import Judged, first, or_one


def ndcg(judged: Judged, k: int) -> Floats:
    """Return the discounted gain of the first k over that of the best ranking of all gold."""
    return first(judged.gained, k) / or_one(first(judged.best, k))


MEASURE = RankMeasure(
    name="nDCG",
    values=ndcg,
    range=SHARE,
    definition="Grades of the first k, discounted by log2 of the rank, over those of the best ranking; linear gain.",
    aliases=("ndcg",),
    graded=False,
    order=50,
)
