"""Relevance over the whole pool: the best of a weak tier scores lower than the best of a strong one."""

from __future__ import annotations

from lab.retrieval.row import Candidate
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Pool
from lab.systems.openclaw.seed.score import over_pool, pool_ranks, rank_relevance, relevance


def test_over_pool_uses_ranks_in_the_pool() -> None:
    pool = Pool({"a": 1, "b": 30}, {"a": (1, 0.2), "b": (40, 1.4)})
    first, weak = (
        over_pool(Candidate(one, 2 / 61, 0, 1, 1, distance), pool) for one, distance in (("a", 0.2), ("b", 1.4))
    )
    assert relevance(first, "rrf") == 1.0
    assert relevance(weak, "rrf") == (1 / 90 + 1 / 100) / (2 / 61)
    assert relevance(weak, "reciprocal") == (1 / 30 + 1 / 40) / 2
    assert relevance(weak, "similarity") == (1 - 0.7) + 0.7 * 0.5 / 30


def test_over_pool_ranks_unlisted_candidates_behind_the_pool() -> None:
    candidate = over_pool(Candidate("c", 2 / 61, 0, 1, 2, 1.6), Pool({}, {}))
    assert (candidate.score, candidate.fts_rank, candidate.vec_rank, candidate.distance) == (
        0.0,
        None,
        POOL_DEPTH + 1,
        1.6,
    )
    assert relevance(candidate, "rrf") == 0.0
    assert relevance(candidate, "similarity") == 1 - 1.6 / 2


def test_over_pool_takes_a_missing_distance_from_the_pool() -> None:
    candidate = over_pool(Candidate("d", 1 / 61, 0, 1, None, 0.0), Pool({"d": 3}, {"d": (20, 0.8)}))
    assert (candidate.fts_rank, candidate.vec_rank, candidate.distance) == (3, 20, 0.8)
    assert candidate.score == 1 / 63 + 1 / 80


def test_pool_ranks_follow_the_fused_score_then_the_id() -> None:
    pool = Pool({"b": 1, "a": 2}, {"a": (1, 0.1), "c": (2, 0.5), "b": (2, 0.2), "d": (2, 0.5)})
    assert pool_ranks(pool) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_rank_relevance_falls_in_equal_steps_to_its_depth() -> None:
    assert [rank_relevance(rank, 4) for rank in range(1, 7)] == [1.0, 0.75, 0.5, 0.25, 0.25, 0.25]
