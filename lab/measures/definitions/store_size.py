"""StoreSize: how much a system that captures has piled up."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure

MEASURE = WritesMeasure(
    name="StoreSize",
    values=lambda written: float(written.held),
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Memories that a system which captures holds at the end of the conversation.",
    order=30,
)
