"""BudgetEvictions: how many items the budget drops."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, SEED_001, TurnMeasure


def budget_evictions(turns: Turns) -> Floats:
    """Return how many items the budget dropped; NaN where the receipt does not report it."""
    return turns.evicted.astype(float)


MEASURE = TurnMeasure(
    name="BudgetEvictions",
    values=budget_evictions,
    better="lower",
    range=COUNT,
    source=SEED_001,
    definition=("Number of items that the budget dropped from the block; null where the receipt does not report it."),
    order=160,
)
