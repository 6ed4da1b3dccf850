"""P@k, precision."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import SHARE, RankMeasure
from lab.measures.ranking import Judged, first


def precision(judged: Judged, k: int) -> Floats:
    """Return the share of k places that hold a relevant memory."""
    return first(judged.found, k) / k


MEASURE = RankMeasure(
    name="P",
    values=precision,
    range=SHARE,
    definition="Share of k places that hold a relevant memory; an empty place counts as a wrong one.",
    aliases=("precision",),
    needs_cutoff=True,
    order=40,
)
