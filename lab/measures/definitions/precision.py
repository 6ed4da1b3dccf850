"""P@k, precision."""

from __future__ import annotations

from lab.measures.inputs import first
from lab.measures.model import SHARE, RankMeasure

MEASURE = RankMeasure(
    name="P",
    values=lambda judged, k: first(judged.hits, k) / k,
    range=SHARE,
    definition="Share of the first k ranks with a relevant memory; an empty rank counts as not relevant.",
    aliases=("precision",),
    needs_cutoff=True,
    order=40,
)
