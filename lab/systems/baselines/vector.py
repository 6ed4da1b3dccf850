"""``vector``: nearest neighbours by embedding distance only."""

from __future__ import annotations

from lab.retrieval.contract import Candidate
from lab.systems.baselines.arm import Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """Rank by the vector lane."""
    context, depth, lanes = question.context, question.depth, question.lanes()
    hits = [(rank, hit, context.rows[hit.row]) for rank, hit in enumerate(lanes.vec[:depth], 1)]
    return Ranking(
        [(row, Candidate(row.id, hit.score, row.created_at, None, rank, hit.distance)) for rank, hit, row in hits],
        lanes,
    )


make = factory(Baseline("vector", rank, claims=("relevant", "meaning", "embedder"), reranks=True))
