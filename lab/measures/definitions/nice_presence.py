"""NicePresence: whether a memory labelled nice_to_have was injected."""

from __future__ import annotations

from lab.measures.inputs import where_any
from lab.measures.model import SEED_000, YES, TurnMeasure

MEASURE = TurnMeasure(
    name="NicePresence",
    values=lambda turns: where_any(turns.visible_nice, turns.nice > 0),
    better="neither",
    range=YES,
    source=SEED_000,
    definition=(
        "A memory labelled nice_to_have is injected, relevant or not; 1 under tier_quota_v1 by construction; "
        "null where none is visible."
    ),
    order=50,
)
