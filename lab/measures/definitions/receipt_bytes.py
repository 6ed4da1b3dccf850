"""ReceiptBytes: the size of the receipt."""

from __future__ import annotations

from lab.measures.model import COUNT, SEED_000, TurnMeasure

MEASURE = TurnMeasure(
    name="ReceiptBytes",
    values=lambda turns: turns.receipt_bytes.astype(float),
    better="lower",
    range=COUNT,
    source=SEED_000,
    definition="Bytes of the receipt as logged, one line of JSON in UTF-8; null where the system writes no receipt.",
    missing=None,
    order=180,
)
