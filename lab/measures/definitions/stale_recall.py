"""StaleRecall: whether a superseded memory is injected before or without its successor."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, where_any
from lab.measures.model import ITSELF, YES, TurnMeasure


def stale_recall(turns: Turns) -> Floats:
    """Return 1 where a superseded memory is injected with no successor before it, else 0; NaN if none is superseded."""
    return where_any(turns.superseded, turns.stale > 0)


MEASURE = TurnMeasure(
    name="StaleRecall",
    values=stale_recall,
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
