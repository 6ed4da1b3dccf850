"""HardRules: whether hard rules reach the prompt.

A missing value counts as 1, because a skipped prompt loses no rule.
"""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def hard_rules(turns: Turns) -> Floats:
    """Return the share of the visible hard rules whose text is in the prompt; NaN where there are none.

    They are those of the turn's scope and those of scope ``global``.
    """
    return share(turns.hard_kept, turns.hard_rules)


MEASURE = TurnMeasure(
    name="HardRules",
    values=hard_rules,
    better="higher",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of the visible hard rules of the turn's scope and of scope global whose text is in the prompt; null "
        "where there are none."
    ),
    missing=1.0,
    sentence="{candidate:.0%} of the visible hard rules are in the prompt, against {baseline:.0%}",
    order=70,
)
