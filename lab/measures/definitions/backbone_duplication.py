"""BackboneDuplication: the share of the injected memories that repeat the Working Set."""

from __future__ import annotations

from lab.measures.inputs import Floats, Turns, share
from lab.measures.model import SEED_000, SHARE, TurnMeasure


def backbone_duplication(turns: Turns) -> Floats:
    """Return the share of injected memories that repeat the Working Set; NaN without one, or without memories."""
    return share(turns.duplicates, turns.injected)


MEASURE = TurnMeasure(
    name="BackboneDuplication",
    values=backbone_duplication,
    better="lower",
    range=SHARE,
    source=SEED_000,
    definition="Share of the injected memories that repeat the Working Set; null without a Working Set or injections.",
    order=60,
)
