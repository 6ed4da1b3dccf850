"""Future: memories that do not exist yet. A safety check: expected to be 0."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import ITSELF, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="Future",
    values=lambda turns: share(turns.future, turns.injected + turns.pinned),
    better="lower",
    range=SHARE,
    source=ITSELF,
    definition="Share of the memories injected or in the Working Set that do not exist yet at the turn. Expected: 0.",
    order=110,
)
