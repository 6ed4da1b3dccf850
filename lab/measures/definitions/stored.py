"""Stored: how many memories a capturing system creates."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure
from lab.runs.receipts import Written


def stored(written: Written) -> float:
    """Return the number of memories created per turn; 0 without turns."""
    return written.created / written.turns if written.turns else 0.0


MEASURE = WritesMeasure(
    name="Stored",
    values=stored,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories that a capturing system creates per turn.",
    order=20,
)
