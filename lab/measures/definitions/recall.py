"""R@k, recall."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first, or_one
from lab.measures.model import SHARE, RankMeasure


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
