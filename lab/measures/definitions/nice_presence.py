"""NicePresence: whether a memory labelled nice_to_have was injected."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, where_any
from lab.measures.model import SEED_000, YES, TurnMeasure


def nice_presence(turns: Turns) -> Floats:
    """Return 1 where a memory labelled nice_to_have was injected, else 0; NaN where none was visible."""
    return where_any(turns.visible_nice, turns.nice > 0)


MEASURE = TurnMeasure(
    name="NicePresence",
    values=nice_presence,
    better="neither",
    range=YES,
    source=SEED_000,
    definition=(
        "A memory labelled nice_to_have is injected, relevant or not; 1 under tier_quota_v1 by construction; "
        "null where none is visible."
    ),
    order=50,
)
