"""``none``: no memories, the baseline that every memory system must beat."""

from __future__ import annotations

from lab.systems.baselines.arm import Baseline, Question, Ranking, factory


def rank(_: Question) -> Ranking:
    """Return an empty ranking."""
    return Ranking([])


make = factory(Baseline("none", rank, is_empty=True, claims=("nothing",)))
