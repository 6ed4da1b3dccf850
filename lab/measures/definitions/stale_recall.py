"""StaleRecall: whether a superseded memory misleads."""

from __future__ import annotations

from lab.measures.columns import Floats, where_any
from lab.measures.conversation import Turns
from lab.measures.model import ITSELF, YES, TurnMeasure


def stale_recall(turns: Turns) -> Floats:
    """Return 1 where a superseded memory came before what supersedes it, else 0; NaN where nothing is superseded."""
    return where_any(turns.superseded, turns.stale > 0)


MEASURE = TurnMeasure(
    name="StaleRecall",
    values=stale_recall,
    better="lower",
    range=YES,
    source=ITSELF,
    definition=(
        "A memory is injected that one born since supersedes, before that one or without it; null where none is yet."
    ),
    sentence="a superseded one at {candidate:.0%} of the turns with one, against {baseline:.0%}",
    order=140,
)
