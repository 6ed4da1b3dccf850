"""Judged@k, as in ir_measures: the share of a ranking that is judged."""

from __future__ import annotations

from lab.measures.inputs import Floats, Judged, first, or_one, running
from lab.measures.model import IR_MEASURES, SHARE, RankMeasure


def judged_share(judged: Judged, k: int) -> Floats:
    """Return the judged share of the first k items, or of all items if there are fewer."""
    import numpy as np

    return first(running(~np.isnan(judged.grades)), k) / or_one(np.minimum(judged.sizes, k))


MEASURE = RankMeasure(
    name="Judged",
    values=judged_share,
    better="neither",
    range=SHARE,
    source=IR_MEASURES,
    definition="Share of the first k items, or of all if there are fewer, that are judged, as relevant or not.",
    graded=False,
    order=80,
)
