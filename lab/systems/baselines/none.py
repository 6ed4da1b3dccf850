"""``none``: no memory at all, which every memory system has to beat."""

from __future__ import annotations

from lab.systems.baselines.arm import Baseline, Question, Ranking, factory


def rank(_: Question) -> Ranking:
    """Nothing."""
    return Ranking([])


make = factory(Baseline("none", rank))
