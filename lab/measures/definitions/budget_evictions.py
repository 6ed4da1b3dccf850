"""BudgetEvictions: what the budget of the block costs."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.conversation import Turns
from lab.measures.model import COUNT, SEED_001, TurnMeasure


def budget_evictions(turns: Turns) -> Floats:
    """Return how many items the budget dropped; NaN where no receipt says."""
    return turns.evicted.astype(float)


MEASURE = TurnMeasure(
    name="BudgetEvictions",
    values=budget_evictions,
    better="lower",
    range=COUNT,
    source=SEED_001,
    definition=(
        "What the budget dropped of the block, in items, as the receipt says; null where no receipt says anything."
    ),
    order=160,
)
