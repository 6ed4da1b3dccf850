"""StoreGrowth: by how many memories a capturing system grows per turn."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure

MEASURE = WritesMeasure(
    name="StoreGrowth",
    values=lambda written: written.held / written.turns if written.turns else 0.0,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Memories that a capturing system holds at the end of the conversation, for each of its turns.",
    order=31,
)
