"""P@k, precision."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first
from lab.measures.model import SHARE, RankMeasure


def precision(judged: Judged, k: int) -> Floats:
    """Return the share of the first k ranks that hold a relevant memory."""
    return first(judged.hits, k) / k


MEASURE = RankMeasure(
    name="P",
    values=precision,
    range=SHARE,
    definition="Share of the first k ranks with a relevant memory; an empty rank counts as not relevant.",
    aliases=("precision",),
    needs_cutoff=True,
    order=40,
)
