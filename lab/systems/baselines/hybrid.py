"""``hybrid``: both lanes over the whole pool, fused by rank. The plainest search that is any good."""

from __future__ import annotations

from lab.retrieval.contract import Lanes
from lab.retrieval.fusion import fuse
from lab.systems.baselines.arm import LANE_DEPTH, Baseline, Question, Ranking, factory


def rank(question: Question) -> Ranking:
    """Reciprocal rank fusion of the first :data:`LANE_DEPTH` hits of each lane."""
    found, depth, lanes = question.found, question.depth, question.lanes()
    both = Lanes(lanes.fts[:LANE_DEPTH], lanes.vec[:LANE_DEPTH])
    by_id = {found.rows[hit.row].id: found.rows[hit.row] for hits in both[:2] for hit in hits}
    return Ranking([(by_id[one.id], one) for one in fuse(both, found.rows, depth)], lanes)


make = factory(Baseline("hybrid", rank))
