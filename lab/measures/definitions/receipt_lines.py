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
        "Rows of 80 columns that lab canary show needs for the whole receipt; of a receipt that is none of the "
        "engine's, those of its JSON; null where the system writes none."
    ),
    missing=None,
    order=182,
)
