"""InjectedTokens: how many tokens the injected block takes."""

from __future__ import annotations

from lab.measures.model import COUNT, TurnMeasure

MEASURE = TurnMeasure(
    name="InjectedTokens",
    values=lambda turns: turns.tokens.astype(float),
    better="neither",
    range=COUNT,
    source="seed 002",
    definition=(
        "Estimated tokens of the injected block: 1/4 for each ASCII character, 2/3 for each CJK one, 1/2 for others."
    ),
    order=170,
)
