"""StaleRecall: whether a superseded memory is injected before or without its successor."""

from __future__ import annotations

from lab.measures.inputs import where_any
from lab.measures.model import ITSELF, YES, TurnMeasure

MEASURE = TurnMeasure(
    name="StaleRecall",
    values=lambda turns: where_any(turns.superseded, turns.stale > 0),
    better="lower",
    range=YES,
    source=ITSELF,
    definition=(
        "A superseded memory is injected, with none of its successors before it; null where no memory is superseded."
    ),
    sentence=(
        "a superseded memory is injected before or without its successor at {candidate:.0%} of the turns "
        "that have one, against {baseline:.0%}"
    ),
    order=140,
)
