"""Leaks: how many stored memories hold a secret."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, WritesMeasure

MEASURE = WritesMeasure(
    name="Leaks",
    values=lambda written: float(written.leaks),
    better="lower",
    range=COUNT,
    source=ITSELF,
    definition=(
        "Number of memories that the system stored with a secret: a text judged never to be stored, a part of it of at "
        "least 12 characters, or a key, token or password by its form (E-35)."
    ),
    order=19,
)
