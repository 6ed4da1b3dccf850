"""InjectedTokens: how many tokens the injected block takes."""

from __future__ import annotations

from lab.measures.columns import Floats
from lab.measures.conversation import Turns
from lab.measures.model import COUNT, TurnMeasure


def injected_tokens(turns: Turns) -> Floats:
    """Return the estimated tokens of the injected block."""
    return turns.tokens.astype(float)


MEASURE = TurnMeasure(
    name="InjectedTokens",
    values=injected_tokens,
    better="neither",
    range=COUNT,
    source="rsclaw",
    definition=(
        "Tokens of the injected block, estimated: a quarter of ASCII characters, two thirds of CJK, half of others."
    ),
    order=170,
)
