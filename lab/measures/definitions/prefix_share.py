"""PrefixShare: the share of the block that a prompt cache can reuse."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import SEED_003, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="PrefixShare",
    values=lambda turns: share(turns.prefix_tokens, turns.tokens),
    better="neither",
    range=SHARE,
    source=SEED_003,
    definition=(
        "Share of the estimated tokens of the injected block that equal the start of the block of the previous recall "
        "turn; null for an empty block and at the first recall turn."
    ),
    sentence="a prompt cache reuses {candidate:.0%} of the injected block, against {baseline:.0%}",
    order=45,
)
