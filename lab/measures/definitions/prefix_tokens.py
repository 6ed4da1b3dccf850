"""PrefixTokens: how much of the start of the block a prompt cache can reuse."""

from __future__ import annotations

from lab.measures.model import COUNT, SEED_003, TurnMeasure

MEASURE = TurnMeasure(
    name="PrefixTokens",
    values=lambda turns: turns.prefix_tokens.astype(float),
    better="neither",
    range=COUNT,
    source=SEED_003,
    definition=(
        "Estimated tokens at the start of the injected block that equal the start of the block of the previous recall "
        "turn, which is what a prompt cache reuses; null at the first recall turn."
    ),
    order=46,
)
