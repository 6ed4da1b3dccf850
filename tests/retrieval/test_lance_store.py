"""The memories table in LanceDB: its columns, the order of ties, its maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from lab.retrieval.contract import Filter, Hit, Lanes, Query, Row
from lab.retrieval.lance import WRITTEN, LanceStore
from lab.retrieval.tokens import TextSettings

EAST, NORTH = (1.0, 0.0), (0.0, 1.0)
EVERYTHING = Filter()


def row(identity: str, text: str, scope: str = "global", label: str = "unknown", created_at: int = 0) -> Row:
    return Row(identity, f"key/{identity}", text, text, created_at, "fact", label, scope)


def add(store: LanceStore, rows: Sequence[Row], vectors: Sequence[tuple[float, float]]) -> None:
    store.add(rows, np.asarray(vectors, np.float32).reshape(-1, 2), [[] for _ in rows])


def query(text: str = "deploy", vector: tuple[float, float] | None = EAST) -> Query:
    return Query(text, text.split(), None if vector is None else np.asarray(vector, np.float32))


def found(store: LanceStore, lane: str, where: Filter = EVERYTHING, limit: int = 10, text: str = "deploy") -> list[str]:
    """Return the ids of one lane for a query."""
    return [store.rows[hit.row].id for hit in getattr(store.view(query(text)).search(where, limit), lane)]


@pytest.fixture
def store() -> Iterator[LanceStore]:
    with closing(LanceStore(2, TextSettings())) as opened:
        yield opened


def test_add_stores_a_row_in_the_engines_columns(store: LanceStore) -> None:
    given = Row("id-1", "key", "shown 備份", "searched", 1_760_000_000_001, "todo", "ignore", "work", "user", 0.25)
    add(store, [given, row("id-2", "plain")], [EAST, NORTH])
    assert store.table.to_arrow().to_pylist() == [
        {
            "id": "id-1",
            "text": "shown 備份",
            "index_text": "searched",
            "vector": [1.0, 0.0],
            "createdAt": 1_760_000_000_001.0,
            "category": "todo",
            "importance": 0.25,
            "importance_label": "ignore",
            "scope": "work",
            "trust_tier": "user",
        },
        {
            "id": "id-2",
            "text": "plain",
            "index_text": "plain",
            "vector": [0.0, 1.0],
            "createdAt": 0.0,
            "category": "fact",
            "importance": None,
            "importance_label": "unknown",
            "scope": "global",
            "trust_tier": "user",
        },
    ]


def test_search_uses_index_text(store: LanceStore) -> None:
    add(store, [Row("a", "a", "deploy", "rollback", 0), Row("b", "b", "rollback", "deploy", 0)], [EAST, EAST])
    assert found(store, "fts") == ["b"]


def test_hits_have_the_scores_of_both_lanes(store: LanceStore) -> None:
    add(store, [row("far", "nothing here"), row("near", "deploy"), row("half", "other")], [(-1.0, 0.0), EAST, NORTH])
    lanes = store.view(query()).search(EVERYTHING, 10)
    assert lanes.vec == [Hit(1, 1.0, 0.0), Hit(2, 0.333333, 2.0), Hit(0, 0.2, 4.0)]
    assert [(hit.row, hit.distance) for hit in lanes.fts] == [(1, 0.0)]
    assert lanes.fts[0].score > 0


@pytest.mark.parametrize("limit", [1, 7, 33])
@pytest.mark.parametrize("lane", ["fts", "vec"])
def test_search_with_many_ties_returns_the_first_ids(store: LanceStore, lane: str, limit: int) -> None:
    """All forty rows tie, far more than the first fetch, and are stored in reverse order of their ids."""
    ids = [f"{number:02d}" for number in range(40)]
    add(store, [row(identity, "deploy") for identity in reversed(ids)], [EAST] * 40)
    assert found(store, lane, limit=limit) == ids[:limit]


def test_filters_quote_scopes_and_labels(store: LanceStore) -> None:
    scopes = ["o'brien", "o''brien", 'say "x"', "x' OR '1'='1", "100%", "back\\slash", "團隊", "global"]
    labels = ["must_remember", "nice_to_have"]
    rows = [row(f"{scope}/{label}", "deploy", scope, label) for scope in scopes for label in labels]
    add(store, rows, [EAST] * len(rows))
    for lane in ("fts", "vec"):
        for scope in scopes:
            assert found(store, lane, Filter(scope)) == [f"{scope}/{label}" for label in labels]
            assert found(store, lane, Filter(scope, ("nice_to_have",))) == [f"{scope}/nice_to_have"]
        assert len(found(store, lane, Filter(None, ("must_remember", "ignore")), limit=50)) == len(scopes)


@pytest.mark.parametrize("where", [Filter("nowhere"), Filter(None, ("ignore",)), Filter("work", ("unknown",))])
@pytest.mark.parametrize("lane", ["fts", "vec"])
def test_search_with_a_filter_that_matches_no_row_returns_nothing(store: LanceStore, lane: str, where: Filter) -> None:
    add(store, [row("a", "deploy", "work", "must_remember"), row("b", "deploy")], [EAST, EAST])
    assert found(store, lane, where) == []


@pytest.mark.parametrize(
    ("searched", "expected"),
    [
        (Query("deploy", ["deploy"], None), (1, 0)),
        (Query("the of", [], np.asarray(EAST, np.float32)), (0, 1)),
        (Query("", [], None), (0, 0)),
        (Query('deploy "AND (now', ["deploy", "now"], None), (1, 0)),
        (Query("deploy \ud83d", ["deploy"], None), (1, 0)),
    ],
)
def test_search_without_words_or_vector_leaves_that_lane_empty(
    store: LanceStore, searched: Query, expected: tuple[int, int]
) -> None:
    add(store, [row("a", "deploy")], [EAST])
    lanes = store.view(searched).search(EVERYTHING, 5)
    assert (len(lanes.fts), len(lanes.vec)) == expected


def test_search_of_an_empty_table_returns_nothing(store: LanceStore) -> None:
    store.add([], np.zeros((0, 2), np.float32), [])
    assert store.view(query()).search(EVERYTHING, 5)[:2] == Lanes([], [])[:2]
    add(store, [row("a", "deploy")], [EAST])
    assert found(store, "fts") == found(store, "vec") == ["a"]


def test_add_stores_lone_surrogates_as_question_marks(store: LanceStore) -> None:
    add(store, [row("a", "deploy \ud83d now")], [EAST])
    assert store.table.to_arrow()["text"].to_pylist() == ["deploy ? now"]
    assert store.rows[0].text == "deploy \ud83d now"
    assert found(store, "fts") == ["a"]


def test_later_rows_are_scored_with_statistics_of_all_rows(store: LanceStore) -> None:
    """The table is refreshed after each change, so the result is as if all rows were added at once."""
    texts = ["deploy gateway", "deploy", "rollback of the gateway", "other words entirely", "deploy deploy now"]
    rows = [row(str(number), text) for number, text in enumerate(texts)]
    for number, one in enumerate(rows):
        add(store, [one], [EAST])
        with closing(LanceStore(2, TextSettings())) as fresh:
            add(fresh, rows[: number + 1], [EAST] * (number + 1))
            once, grown = (one.view(query("deploy gateway")).search(EVERYTHING, 9).fts for one in (fresh, store))
            assert grown == once


def test_view_caches_a_repeated_search(store: LanceStore) -> None:
    add(store, [row("a", "deploy")], [EAST])
    view = store.view(query())
    assert view.search(EVERYTHING, 5) is view.search(Filter(None, None), 5)
    assert view.search(EVERYTHING, 5).nanoseconds > 0


def test_compaction_waits_for_compact_every_rows() -> None:
    with closing(LanceStore(2, TextSettings(), compact_every=3)) as store:
        add(store, [row("a", "deploy"), row("b", "deploy")], [EAST, EAST])
        assert not store.table.list_indices()
        assert found(store, "vec") == ["a", "b"]
        add(store, [row("c", "deploy")], [EAST])
        indexed = {column for index in store.table.list_indices() for column in index.columns}
        assert indexed == {"index_text", "importance_label", "scope"}
        assert found(store, "fts") == ["a", "b", "c"]


def test_add_writes_many_rows_in_parts() -> None:
    """A search of one piece of 100,000 rows takes eight times as long as that of parts."""
    with closing(LanceStore(2, TextSettings(), compact_every=None)) as store:
        add(store, [row(f"{number:05d}", f"deploy {number}") for number in range(WRITTEN + 5)], [EAST] * (WRITTEN + 5))
        assert (len(store.rows), store.table.count_rows(), store.waiting) == (WRITTEN + 5,) * 3
        fragments = store.table.stats()["fragment_stats"]
        assert (fragments["num_fragments"], fragments["lengths"]["max"]) == (2, WRITTEN)


def test_appending_one_by_one_leaves_few_fragments_and_full_indexes(store: LanceStore) -> None:
    """Each append adds a fragment; without compaction there would be as many fragments as rows."""
    for number in range(12):
        add(store, [row(str(number), "deploy")], [EAST])
    indexed = [store.table.index_stats(index.name) for index in store.table.list_indices()]
    assert [(index.num_indexed_rows, index.num_unindexed_rows) for index in indexed] == [(12, 0)] * 3
    assert store.table.stats()["fragment_stats"]["num_fragments"] <= 2


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return the content of the folder for temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    return lambda: [path.name for path in (tmp_path / "temporary").iterdir()]


def test_close_deletes_a_temporary_table(temporary: Callable[[], list[str]]) -> None:
    store = LanceStore(2, TextSettings())
    add(store, [row("a", "deploy")], [EAST])
    assert len(temporary()) == 1
    store.close()
    assert temporary() == []


def test_close_keeps_a_table_in_a_given_folder(tmp_path: Path, temporary: Callable[[], list[str]]) -> None:
    store = LanceStore(2, TextSettings(), tmp_path / "table")
    add(store, [row("a", "deploy")], [EAST])
    store.close()
    assert (tmp_path / "table" / "memories.lance").is_dir()
    assert temporary() == []
