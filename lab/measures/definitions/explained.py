"""Explained: the share of memories for which the receipt gives a reason, injected or not."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import SEED_000, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="Explained",
    values=lambda turns: share(turns.explained, turns.to_explain),
    better="higher",
    range=SHARE,
    source=SEED_000,
    definition=(
        "Share of the injected, pinned and displaced memories for which the receipt gives a reason, not only a search "
        "hit; displaced are must_remember memories that would be injected if must came first. Null without a receipt."
    ),
    missing=None,
    order=184,
)
