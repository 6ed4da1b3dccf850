"""Success@k, also called hit@k."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first
from lab.measures.model import YES, RankMeasure


def success(judged: Judged, k: int) -> Floats:
    """Return 1 where any relevant memory is among the first k, else 0."""
    return (first(judged.hits, k) > 0).astype(float)


MEASURE = RankMeasure(
    name="Success",
    values=success,
    range=YES,
    definition="A relevant memory is among the first k; also called hit@k.",
    aliases=("hit",),
    sentence="a relevant memory is injected at {candidate:.0%} of the probes, against {baseline:.0%}",
    order=10,
)
