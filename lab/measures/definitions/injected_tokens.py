"""InjectedTokens: how many tokens the injected block takes."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns
from lab.measures.model import COUNT, TurnMeasure


def injected_tokens(turns: Turns) -> Floats:
    """Return the estimated tokens of the injected block."""
    return turns.tokens.astype(float)


MEASURE = TurnMeasure(
    name="InjectedTokens",
    values=injected_tokens,
    better="neither",
    range=COUNT,
    source="seed 002",
    definition=(
        "Estimated tokens of the injected block: 1/4 for each ASCII character, 2/3 for each CJK one, 1/2 for others."
    ),
    order=170,
)
