"""R@k, recall."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import SHARE, RankMeasure
from lab.measures.ranking import Judged, first, or_one


def recall(judged: Judged, k: int) -> Floats:
    """Return the share of the relevant memories that are among the first k."""
    return first(judged.hits, k) / or_one(judged.gold)


MEASURE = RankMeasure(
    name="R",
    values=recall,
    range=SHARE,
    definition="Share of the relevant memories that are among the first k.",
    aliases=("recall",),
    order=20,
)
