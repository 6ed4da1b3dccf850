"""Queries scored in blocks: same results as one by one, whatever else is in a block and whenever rows are added."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from lab.base.columns import Growing
from lab.recordings.model import LABELS
from lab.retrieval.contract import Filter, Lanes, Query, Row
from lab.retrieval.exact import BLOCK, ExactStore
from lab.retrieval.tokens import TextSettings
from lab.systems.openclaw.memory import engine_id

DIMENSION = 24
WORDS = [f"w{number}" for number in range(30)]


def filled(count: int, seed: int) -> tuple[list[Row], np.ndarray, list[list[str]]]:
    """Rows with some duplicates, so that there are ties."""
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors[::7] = vectors[0]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [[WORDS[at] for at in random.integers(0, len(WORDS), 8)] for _ in range(count)]
    rows = [
        Row(engine_id(f"{seed} {at}"), str(at), "", "", at, "fact", LABELS[at % 4], f"s{at % 3}") for at in range(count)
    ]
    return rows, vectors, words


def queries_of(count: int) -> list[Query]:
    random = np.random.default_rng(5)
    vectors = random.normal(size=(count, DIMENSION)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [Query(WORDS[at % 30], [WORDS[at % 30], WORDS[at % 7]], vector) for at, vector in enumerate(vectors)]


def answers(queries: list[Query], expected: list[Query], births: int) -> list[list[list]]:
    """Return every lane of every filter at every query, adding rows between queries."""
    store = ExactStore(DIMENSION)
    rows, vectors, words = filled(len(queries) * births, 3)
    if expected:
        store.expect(np.asarray([query.vector for query in expected]))
    results = []
    for at, query in enumerate(queries):
        part = slice(at * births, (at + 1) * births)
        store.add(rows[part], vectors[part], words[part])
        view = store.view(query)
        filters = [Filter(), Filter("s1"), Filter("s2", LABELS[:1]), Filter(None, LABELS[1:3])]
        lanes: list[Lanes] = [view.search(where, 5) for where in filters]
        results.append([[one.fts, one.vec] for one in lanes])
    return results


@pytest.mark.parametrize("births", [1, 5])
def test_exact_store_in_blocks_returns_same_results_as_one_by_one(births: int) -> None:
    queries = queries_of(BLOCK + 9)
    assert answers(queries, queries, births) == answers(queries, [], births)


def test_expect_with_skipped_and_unannounced_queries_changes_no_result() -> None:
    queries = queries_of(BLOCK)
    assert answers(queries[1::2], queries, 3) == answers(queries[1::2], [], 3)
    assert answers(queries, queries[: BLOCK // 2], 3) == answers(queries, [], 3)


def test_exact_store_keeps_one_block_of_products_at_a_time() -> None:
    count = 20_000
    rows, vectors, _ = filled(count, 3)
    store, queries = ExactStore(DIMENSION), queries_of(2 * BLOCK)
    store.add(rows, vectors, [[]] * count)
    store.expect(np.asarray([query.vector for query in queries]))
    store.view(queries[0])
    tracemalloc.start()
    try:
        store.view(queries[BLOCK])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    block = BLOCK * count * np.dtype(np.float32).itemsize
    assert block <= peak < 1.25 * block


def test_growing_array_keeps_its_content_and_its_views() -> None:
    grown = Growing(np.int32, 2, first=1)
    for number in range(9):
        before = grown.array.copy()
        view = grown.array
        grown.extend([(number, -number)])
        assert np.array_equal(view, before)
    assert grown.array.tolist() == [[number, -number] for number in range(9)]
    grown.extend([])
    assert len(grown.array) == 9


@pytest.mark.parametrize("settings", [TextSettings(), TextSettings(lane="scan")])
def test_store_over_a_base_returns_same_results_as_one_of_its_own(settings: TextSettings) -> None:
    rows, vectors, words = filled(60, 3)
    others, far, said = filled(10, 9)
    base, alone = ExactStore(DIMENSION, settings), ExactStore(DIMENSION, settings)
    base.add(rows, vectors, words)
    # Another conversation has taken more, and removed some of it.
    before = ExactStore(DIMENSION, settings, base)
    assert before.take(rows) == 60
    before.remove(rows[3].id)
    store = ExactStore(DIMENSION, settings, base)
    queries = queries_of(5)
    for one in (store, alone):
        one.expect(np.asarray([query.vector for query in queries]))

    def added(part: slice, of: tuple[list[Row], np.ndarray, list[list[str]]], taken: int) -> None:
        chosen, found, spoken = of[0][part], of[1][part], of[2][part]
        count = store.take(chosen)
        assert count == taken
        store.add(chosen[count:], found[count:], spoken[count:])
        alone.add(chosen, found, spoken)

    def compare(query: Query) -> None:
        views = [one.view(query) for one in (store, alone)]
        for where in (Filter(), Filter("s1"), Filter("s2", LABELS[:1])):
            lanes = [view.search(where, 12)[:2] for view in views]
            assert lanes[0] == lanes[1]
            assert lanes[0][1]

    added(slice(0, 20), (rows, vectors, words), 20)
    compare(queries[0])
    added(slice(20, 35), (rows, vectors, words), 15)
    compare(queries[1])
    for one in (store, alone):
        one.remove(rows[7].id)
    compare(queries[2])
    # The first row that differs is not taken, and nothing after it.
    mixed = ([*rows[35:37], *others[:4]], np.concatenate([vectors[35:37], far[:4]]), [*words[35:37], *said[:4]])
    added(slice(0, 6), mixed, 2)
    compare(queries[3])
    added(slice(37, 50), (rows, vectors, words), 0)
    for one in (store, alone):
        one.remove(others[1].id)
        one.remove(rows[30].id)
    compare(queries[4])
    assert [row.id for row in store.rows] == [row.id for row in alone.rows]
    assert base.view(queries[0]).search(Filter(), 60).vec != store.view(queries[0]).search(Filter(), 60).vec
    fresh = ExactStore(DIMENSION, settings)
    fresh.add(rows, vectors, words)
    assert base.view(queries[0]).search(Filter(), 60)[:2] == fresh.view(queries[0]).search(Filter(), 60)[:2]
