"""ReceiptBytes: the size of the receipt."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, SEED_000, TurnMeasure


def receipt_bytes(turns: Turns) -> Floats:
    """Return the bytes of each receipt; NaN where the system writes none."""
    return turns.receipt_bytes.astype(float)


MEASURE = TurnMeasure(
    name="ReceiptBytes",
    values=receipt_bytes,
    better="lower",
    range=COUNT,
    source=SEED_000,
    definition="Bytes of the receipt as logged, one line of JSON in UTF-8; null where the system writes no receipt.",
    missing=None,
    order=180,
)
