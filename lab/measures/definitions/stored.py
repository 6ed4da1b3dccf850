"""Stored: how many memories a capturing system creates."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure

MEASURE = WritesMeasure(
    name="Stored",
    values=lambda written: written.created / written.turns if written.turns else 0.0,
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Number of memories that a capturing system creates per turn.",
    order=20,
)
