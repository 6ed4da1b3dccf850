"""ReceiptLines: how much of a screen the receipt fills."""

from __future__ import annotations

from lab.measures.model import COUNT, SEED_000, TurnMeasure

MEASURE = TurnMeasure(
    name="ReceiptLines",
    values=lambda turns: turns.receipt_lines.astype(float),
    better="lower",
    range=COUNT,
    source=SEED_000,
    definition=(
        "Rows that the receipt, as logged, fills on a terminal of 80 columns; null where the system writes no receipt."
    ),
    missing=None,
    order=182,
)
