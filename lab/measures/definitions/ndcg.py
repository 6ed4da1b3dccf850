"""nDCG@k with linear gain and a log2 discount, as in ndcg_cut of trec_eval."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first, or_one
from lab.measures.model import SHARE, RankMeasure


def ndcg(judged: Judged, k: int) -> Floats:
    """Return the discounted gain of the first k, divided by that of the ideal ranking."""
    return first(judged.dcg, k) / or_one(first(judged.ideal_dcg, k))


MEASURE = RankMeasure(
    name="nDCG",
    values=ndcg,
    range=SHARE,
    definition="Sum of grade / log2(rank + 1) over the first k, divided by that sum for the ideal ranking.",
    aliases=("ndcg",),
    graded=False,
    order=50,
)
