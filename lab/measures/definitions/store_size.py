"""StoreSize: how many memories a capturing system holds."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure

MEASURE = WritesMeasure(
    name="StoreSize",
    values=lambda written: float(written.held),
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories that a capturing system holds at the end of the conversation.",
    order=30,
)
