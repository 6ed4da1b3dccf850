"""BudgetEvictions: how many items the budget drops."""

from __future__ import annotations

from lab.measures.model import COUNT, SEED_001, TurnMeasure

MEASURE = TurnMeasure(
    name="BudgetEvictions",
    values=lambda turns: turns.evicted.astype(float),
    better="lower",
    range=COUNT,
    source=SEED_001,
    definition=("Number of items that the budget dropped from the block; null where the receipt does not report it."),
    order=160,
)
