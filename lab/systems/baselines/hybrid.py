"""``hybrid``: both lanes over the whole pool, fused (by rank unless configured). The simplest competitive search."""

from __future__ import annotations

from lab.retrieval.contract import Lanes
from lab.retrieval.fusion import fuse
from lab.systems.baselines.arm import LANE_DEPTH, Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """Rank by fusion of the first :data:`LANE_DEPTH` hits of each lane, by reciprocal ranks unless configured."""
    rows, depth, lanes = question.context.rows, question.depth, question.lanes()
    both = Lanes(lanes.fts[:LANE_DEPTH], lanes.vec[:LANE_DEPTH])
    by_id = {rows[hit.row].id: rows[hit.row] for hits in both[:2] for hit in hits}
    fused = fuse(both, rows, depth, question.config.fusion)
    return Ranking([(by_id[candidate.id], candidate) for candidate in fused], lanes)


make = factory(Baseline("hybrid", rank, claims=("relevant", "words", "meaning", "embedder"), reranks=True))
