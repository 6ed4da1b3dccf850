"""HardRules: whether hard rules reach the prompt. A prompt that was passed over loses none: a missing value is 1."""

from __future__ import annotations

from lab.measures.columns import Floats, share
from lab.measures.conversation import Turns
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def hard_rules(turns: Turns) -> Floats:
    """Return the share of the hard rules in reach that stand in the block; NaN where none is in reach."""
    return share(turns.hard_kept, turns.hard_rules)


MEASURE = TurnMeasure(
    name="HardRules",
    values=hard_rules,
    better="higher",
    range=SHARE,
    source=SEED_000,
    definition="Share of the hard rules in reach whose text stands in the prompt; null where there are none.",
    missing=1.0,
    order=70,
)
