"""ReceiptLines: how much of a screen the receipt fills."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, SEED_000, TurnMeasure


def receipt_lines(turns: Turns) -> Floats:
    """Return the rows that each receipt fills on a terminal of 80 columns; NaN where the system writes none."""
    return turns.receipt_lines.astype(float)


MEASURE = TurnMeasure(
    name="ReceiptLines",
    values=receipt_lines,
    better="lower",
    range=COUNT,
    source=SEED_000,
    definition=(
        "Rows that the receipt, as logged, fills on a terminal of 80 columns; null where the system writes no receipt."
    ),
    missing=None,
    order=182,
)
