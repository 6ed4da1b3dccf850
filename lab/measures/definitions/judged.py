"""Judged@k, as ir_measures has it: how much of a ranking anybody has judged."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.model import IR_MEASURES, SHARE, RankMeasure
from lab.measures.ranking import Judged, first, or_one, running


def judged_share(judged: Judged, k: int) -> Floats:
    """Return the share of the first k, or of the fewer that there are, that has a judgement."""
    import numpy as np

    return first(running(~np.isnan(judged.grades)), k) / or_one(np.minimum(judged.sizes, k))


MEASURE = RankMeasure(
    name="Judged",
    values=judged_share,
    better="neither",
    range=SHARE,
    source=IR_MEASURES,
    definition="Share of the first k that is judged, wanted or not; where fewer came back, of those that did.",
    graded=False,
    order=80,
)
