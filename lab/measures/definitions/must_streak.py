"""MustStreak: how many turns in a row inject the same must_remember memory."""

from __future__ import annotations

from lab.measures.definitions.longest_streak import longest_streak
from lab.measures.inputs import Turns
from lab.measures.model import SEED_000, ConversationMeasure


def must_streak(turns: Turns) -> float:
    """Return the largest number of consecutive recall turns with the same counted must item; NaN without any.

    A turn at which the memory is an exact hit, a hard rule or pinned ends its streak.
    """
    return longest_streak(turns.must)


MEASURE = ConversationMeasure(
    name="MustStreak",
    values=must_streak,
    better="lower",
    range="1 …",
    source=SEED_000,
    definition=(
        "Largest number of consecutive recall turns that inject the same must_remember memory, without turns at which "
        "it is an exact hit, a hard rule or pinned; null if none is injected."
    ),
    order=12,
)
