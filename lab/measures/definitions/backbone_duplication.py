"""BackboneDuplication: the share of the injected memories that repeat the Working Set."""

from __future__ import annotations

from lab.measures.inputs import share
from lab.measures.model import SEED_000, SHARE, TurnMeasure

MEASURE = TurnMeasure(
    name="BackboneDuplication",
    values=lambda turns: share(turns.duplicates, turns.injected),
    better="lower",
    range=SHARE,
    source=SEED_000,
    definition="Share of the injected memories that repeat the Working Set; null without a Working Set or injections.",
    order=60,
)
