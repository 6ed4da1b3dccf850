"""``recency``: the newest memories, regardless of the query."""

from __future__ import annotations

from lab.systems.baselines.arm import Baseline, Question, Ranking, by_score, factory


def rank(question: Question) -> Ranking:
    """Rank by creation time, newest first."""
    return by_score([(float(row.created_at), row) for row in question.pool], question.depth)


make = factory(Baseline("recency", rank, claims=("newest",)))
