"""AnyWrongScope: whether a memory of another scope was injected."""

from __future__ import annotations

from lab.measures.model import SEED_001, YES, TurnMeasure

MEASURE = TurnMeasure(
    name="AnyWrongScope",
    values=lambda turns: (turns.foreign > 0).astype(float),
    better="lower",
    range=YES,
    source=SEED_001,
    definition=(
        "A memory of another scope than the turn's is injected. If it happens at none of n turns, the 95 % upper bound "
        "is about 3/n."
    ),
    order=150,
)
