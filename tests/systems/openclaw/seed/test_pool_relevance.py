"""Relevance over the whole pool: the best of a weak tier scores lower than the best of a strong one."""

from __future__ import annotations

from collections.abc import Mapping

from lab.retrieval.contract import Candidate, Hit, Lanes, Row
from lab.retrieval.fusion import RRF
from lab.systems.openclaw.recall.retrieve import POOL_DEPTH, Pool
from lab.systems.openclaw.seed.score import over_pool, rank_relevance, relevance


def pool_of(fts: Mapping[str, int], vec: Mapping[str, tuple[int, float]]) -> Pool:
    """Return a pool with these ranks; rows without an id fill the other ranks."""
    ids = ["", *dict.fromkeys([*fts, *vec])]
    lanes = Lanes(
        [Hit(0, 1.0)] * max(fts.values(), default=0), [Hit(0, 1.0, 1.0)] * max((r for r, _ in vec.values()), default=0)
    )
    for identity, rank in fts.items():
        lanes.fts[rank - 1] = Hit(ids.index(identity), 1.0)
    for identity, (rank, distance) in vec.items():
        lanes.vec[rank - 1] = Hit(ids.index(identity), 1.0, distance)
    return Pool(lanes, [Row(identity, identity, "", "", 0) for identity in ids], RRF)


def test_over_pool_uses_ranks_in_the_pool() -> None:
    pool = pool_of({"a": 1, "b": 30}, {"a": (1, 0.2), "b": (40, 1.4)})
    first, weak = (
        over_pool(Candidate(one, 2 / 61, 0, 1, 1, distance), pool) for one, distance in (("a", 0.2), ("b", 1.4))
    )
    assert relevance(first, "rrf") == 1.0
    assert relevance(weak, "rrf") == (1 / 90 + 1 / 100) / (2 / 61)
    assert relevance(weak, "reciprocal") == (1 / 30 + 1 / 40) / 2
    assert relevance(weak, "similarity") == (1 - 0.7) + 0.7 * 0.5 / 30


def test_over_pool_ranks_unlisted_candidates_behind_the_pool() -> None:
    candidate = over_pool(Candidate("c", 2 / 61, 0, 1, 2, 1.6), pool_of({}, {}))
    assert (candidate.score, candidate.fts_rank, candidate.vec_rank, candidate.distance) == (
        0.0,
        None,
        POOL_DEPTH + 1,
        1.6,
    )
    assert relevance(candidate, "rrf") == 0.0
    assert relevance(candidate, "similarity") == 1 - 1.6 / 2


def test_over_pool_takes_a_missing_distance_from_the_pool() -> None:
    candidate = over_pool(Candidate("d", 1 / 61, 0, 1, None, 0.0), pool_of({"d": 3}, {"d": (20, 0.8)}))
    assert (candidate.fts_rank, candidate.vec_rank, candidate.distance) == (3, 20, 0.8)
    assert candidate.score == 1 / 63 + 1 / 80


def test_rank_relevance_falls_in_equal_steps_to_its_depth() -> None:
    assert [rank_relevance(rank, 4) for rank in range(1, 7)] == [1.0, 0.75, 0.5, 0.25, 0.25, 0.25]
