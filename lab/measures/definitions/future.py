"""Future: memories of the future. 0 for a system that keeps its contract."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.conversation import Turns
from lab.measures.model import ITSELF, SHARE, TurnMeasure


def future(turns: Turns) -> Floats:
    """Return the share of injected and pinned memories that the turn could not know; NaN without any."""
    return share(turns.future, turns.injected + turns.pinned)


MEASURE = TurnMeasure(
    name="Future",
    values=future,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition="Share of the memories injected, or held by the digest, that the turn could not know yet. A promise: 0.",
    order=110,
)
