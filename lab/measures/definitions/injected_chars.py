"""InjectedChars: how long the injected block is."""

from __future__ import annotations

from lab.measures.model import COUNT, ITSELF, TurnMeasure

MEASURE = TurnMeasure(
    name="InjectedChars",
    values=lambda turns: turns.chars.astype(float),
    better="neither",
    range=COUNT,
    source=ITSELF,
    definition="Length of the injected block, in UTF-16 units.",
    order=100,
)
