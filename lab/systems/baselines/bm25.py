"""``bm25``: words in common, alone."""

from __future__ import annotations

from lab.retrieval.row import Candidate
from lab.systems.baselines.arm import Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """The text lane."""
    found, depth, lanes = question.found, question.depth, question.lanes()
    hits = [(place, hit, found.rows[hit.row]) for place, hit in enumerate(lanes.fts[:depth], 1)]
    return Ranking([(row, Candidate(row.id, hit.score, row.created_at, at)) for at, hit, row in hits], lanes)


make = factory(Baseline("bm25", rank))
