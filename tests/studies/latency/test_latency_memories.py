"""Stores of any size: the recording's own memories first, resampled ones after them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from lab.replay.plan import Plan, make_plan
from lab.replay.sources import Sources, prepared_sources
from lab.retrieval.contract import Filter, Query
from lab.retrieval.exact import ExactStore
from lab.retrieval.lance import LanceStore, VectorIndex
from lab.retrieval.tokens import TextSettings
from lab.runs.request import ReplayRequest
from lab.studies.latency.bench import Part, Pool, PoolWords, pool_of, questions_of
from lab.systems.kit import Rows


@pytest.fixture(scope="module")
def plan(operators: Path) -> Plan:
    return make_plan(ReplayRequest(str(operators), "lab", ("tier_first_v1",), embedder="hashing"))


@pytest.fixture(scope="module")
def sources(plan: Plan) -> Sources:
    return prepared_sources(plan)


@pytest.fixture(scope="module")
def pool(plan: Plan, sources: Sources) -> Pool:
    return pool_of(plan, sources)


def taken(pool: Pool, start: int, stop: int) -> Part:
    parts = list(pool.parts(start, stop))
    return Part([one for part in parts for one in part.memories], np.concatenate([part.vectors for part in parts]))


def test_pool_starts_with_the_recorded_memories(plan: Plan, pool: Pool) -> None:
    own = [memory for recording in plan.recordings for memory in recording.memories]
    found = taken(pool, 0, len(own))
    assert [(one.key, one.text) for one in found.memories] == [(memory.key, memory.text) for memory in own]
    assert len(next(iter(pool.parts(0, 10))).memories) == 10


def test_pool_smaller_store_is_a_prefix_of_a_larger_one(pool: Pool) -> None:
    whole = taken(pool, 0, 2_600)
    for start, stop in ((0, 900), (900, 1_500), (1_467, 1_469), (2_000, 2_600)):
        part = taken(pool, start, stop)
        assert part.memories == whole.memories[start:stop]
        assert np.array_equal(part.vectors, whole.vectors[start:stop])
    assert len({one.key for one in whole.memories}) == len(whole.memories) == 2_600


def test_pool_with_another_seed_resamples_differently(plan: Plan, sources: Sources, pool: Pool) -> None:
    real = pool.real
    other = Pool(real, sources.vectors.of([one.index_text for one in real]), seed=1)
    assert taken(other, 0, len(real)).memories == taken(pool, 0, len(real)).memories
    assert taken(other, 500, 520).memories != taken(pool, 500, 520).memories


def test_resampled_memories_resemble_recorded_ones(pool: Pool) -> None:
    real = len(pool.real)
    own, made = taken(pool, 0, real), taken(pool, real, real + 1_000)
    assert not {one.text for one in made.memories} & {one.text for one in own.memories}
    words = {word for one in own.memories for word in one.index_text.split()}
    assert {word for one in made.memories for word in one.text.split()} <= words
    assert np.allclose(np.linalg.norm(made.vectors, axis=1), 1, atol=1e-6)
    nearest = (made.vectors @ own.vectors.T).max(axis=1)
    assert 0.95 < nearest.min() <= nearest.max() < 0.999
    assert not any(row.hard_rule for row in Rows().of(made.memories))
    shares = [np.mean([one.label == "must_remember" for one in part.memories]) for part in (own, made)]
    assert shares[1] == pytest.approx(shares[0], abs=0.06)


def test_pool_words_match_the_tokens_of_lancedb(plan: Plan, sources: Sources, pool: Pool) -> None:
    """Both stores return equal hits with equal scores, so the tokens agree."""
    memories, vectors = taken(pool, 300, 900)
    rows = Rows().of(memories)
    settings = TextSettings()
    exact, dimension = ExactStore(vectors.shape[1], settings), vectors.shape[1]
    exact.add(rows, vectors, PoolWords(pool, settings).of([row.index_text for row in rows]))
    with closing(LanceStore(dimension, settings)) as lance:
        lance.add(rows, vectors, [[]] * len(rows))
        for question in questions_of(plan, sources, 12):
            near, live = (store.view(question.query).search(Filter(), 12) for store in (exact, lance))
            assert near[:2] == live[:2]


def test_questions_spread_over_recordings_and_repeat(plan: Plan, sources: Sources) -> None:
    few = questions_of(plan, sources, 12)
    assert {one.ask.turn.split("/")[0] for one in few} == {one.conversation for one in plan.recordings}
    many = questions_of(plan, sources, 2_000)
    keys = [one.ask.turn for one in many]
    assert keys == (keys[: len(set(keys))] * 20)[:2_000]


def test_vector_index_approximates_exact_search_when_enabled(pool: Pool) -> None:
    memories, vectors = taken(pool, 0, 1_500)
    rows = Rows().of(memories)
    with closing(LanceStore(vectors.shape[1], TextSettings(), None, None, vector_index=VectorIndex(probes=8))) as store:
        store.add(rows[:900], vectors[:900], [[]] * 900)
        store.compact()
        columns = [column for index in store.table.list_indices() for column in index.columns]
        assert "vector" not in columns, "there are too few rows for an index"
        store.add(rows[900:], vectors[900:], [[]] * 600)
        assert store.waiting == 600
        store.compact()
        assert (store.waiting, len(store.table.list_indices())) == (0, 4)
        wanted = found = 0
        for place in range(0, 1_500, 75):
            query = Query("", [], vectors[place])
            near = store.search_vectors(query, Filter(), 12)
            assert near[0].row == place
            index, store.vector_index = store.vector_index, None
            exact = store.search_vectors(query, Filter(), 12)
            store.vector_index = index
            found, wanted = found + len({hit.row for hit in near} & {hit.row for hit in exact}), wanted + 12
        assert 0.5 < found / wanted < 1, "an approximate search that misses nothing searched everything"


def test_lance_store_reopened_returns_equal_hits(pool: Pool, tmp_path: Path) -> None:
    memories, vectors = taken(pool, 0, 60)
    rows = Rows().of(memories)
    first = LanceStore(vectors.shape[1], TextSettings(), tmp_path, None)
    first.add(rows, vectors, [[]] * 60)
    assert not first.table.list_indices(), "never compacted, and so never indexed"
    first.compact()
    again = LanceStore(vectors.shape[1], TextSettings(), tmp_path, None, reopen=True)
    again.know(rows)
    query = Query(rows[7].text, ["any"], vectors[7])
    lanes = [store.view(query).search(Filter(), 9)[:2] for store in (first, again)]
    assert lanes[0] == lanes[1]
    assert lanes[0][1][0].row == 7
