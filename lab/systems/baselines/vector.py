"""``vector``: nearest by the distance of embeddings, alone."""

from __future__ import annotations

from lab.retrieval.contract import Filter
from lab.retrieval.row import Candidate
from lab.systems.baselines.arm import LANE_DEPTH, Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """The vector lane."""
    ask, found, depth, _ = question
    lanes = found.view.search(Filter(ask.scope), max(LANE_DEPTH, depth))
    hits = [(place, hit, found.rows[hit.row]) for place, hit in enumerate(lanes.vec[:depth], 1)]
    return Ranking([(row, Candidate(row.id, hit.score, row.created_at, None, at)) for at, hit, row in hits], lanes)


make = factory(Baseline("vector", rank))
