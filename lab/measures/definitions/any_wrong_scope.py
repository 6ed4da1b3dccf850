"""AnyWrongScope: whether a memory of another scope was injected."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import SEED_001, YES, TurnMeasure


def any_wrong_scope(turns: Turns) -> Floats:
    """Return 1 where a memory of another scope was injected, else 0."""
    return (turns.foreign > 0).astype(float)


MEASURE = TurnMeasure(
    name="AnyWrongScope",
    values=any_wrong_scope,
    better="lower",
    range=YES,
    source=SEED_001,
    definition=(
        "A memory of another scope than the turn's is injected. If it happens at none of n turns, the 95 % upper bound "
        "is about 3/n."
    ),
    order=150,
)
