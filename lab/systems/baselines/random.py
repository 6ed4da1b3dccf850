"""``random``: a random order of the memories, drawn anew at every turn."""

from __future__ import annotations

from lab.base.draw import draw
from lab.systems.baselines.arm import Baseline, Question, Ranking, by_score, factory


def rank(question: Question) -> Ranking:
    """Rank by a hash of seed, turn and memory."""
    turn, seed = question.ask.turn, question.seed
    return by_score([(draw(seed, f"{turn} {row.key}"), row) for row in question.pool], question.depth)


make = factory(Baseline("random", rank, draws=True, claims=("something",)))
