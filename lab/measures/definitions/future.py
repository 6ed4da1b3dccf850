"""Future: memories that do not exist yet. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import ITSELF, SHARE, TurnMeasure


def future(turns: Turns) -> Floats:
    """Return the share of injected and pinned memories that do not exist yet; NaN without any."""
    return share(turns.future, turns.injected + turns.pinned)


MEASURE = TurnMeasure(
    name="Future",
    values=future,
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition="Share of the memories injected or in the Working Set that do not exist yet at the turn. Expected: 0.",
    order=110,
)
