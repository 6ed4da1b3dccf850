"""PrefixStable: the share of the injected block that the turn before already had."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def prefix_stable(turns: Turns) -> Floats:
    """Return the share of the block's lines, by length, that the previous block has; NaN at the first turn or if empty.

    Lines of the Working Set count like lines of items. The constant lines of every block and item numbers do not count.
    """
    return share(turns.stable_chars, turns.body_chars)


MEASURE = TurnMeasure(
    name="PrefixStable",
    values=prefix_stable,
    better="neither",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of the injected block, Working Set included, whose lines are also in the block of the previous recall "
        "turn, in any order; null for an empty block and at the first recall turn."
    ),
    sentence="{candidate:.0%} of the injected block is that of the turn before, against {baseline:.0%}",
    order=44,
)
