"""``bm25``: full-text search only."""

from __future__ import annotations

from lab.retrieval.contract import Candidate
from lab.systems.baselines.arm import Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """Rank by the text lane."""
    context, depth, lanes = question.context, question.depth, question.lanes()
    hits = [(rank, hit, context.rows[hit.row]) for rank, hit in enumerate(lanes.fts[:depth], 1)]
    return Ranking([(row, Candidate(row.id, hit.score, row.created_at, rank)) for rank, hit, row in hits], lanes)


make = factory(Baseline("bm25", rank, claims=("relevant", "words"), reranks=True))
