"""StoreGrowth: by how many memories a capturing system grows per turn."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure
from lab.runs.receipts import Written


def store_growth(written: Written) -> float:
    """Return the memories left at the end for each turn, less than 0 if more were deleted; 0 without turns."""
    return written.held / written.turns if written.turns else 0.0


MEASURE = WritesMeasure(
    name="StoreGrowth",
    values=store_growth,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Memories that a capturing system holds at the end of the conversation, for each of its turns.",
    order=31,
)
