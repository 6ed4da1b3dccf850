"""Indexes of a table: status, building, thresholds, upkeep, and searches through them (IX-1 to IX-6)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab.base.errors import UnusableInput
from lab.memory.store.index import (
    Thresholds,
    agreement_of,
    build,
    optimize,
    receipt_of,
    status,
    text_options,
)
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.retrieval.quiet import quiet_lance
from lab.systems.openclaw.table.contents import contents_in
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table

COLUMNS = ["scope", "importance_label", "category", "createdAt", "text"]
DEFAULT = Thresholds()
VECTORS = Thresholds(vector_rows=256)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with six memories in six files."""
    path = tmp_path / "lancedb"
    path.mkdir()
    plugin_table(path, *range(6))
    return path


def add(folder: Path, *numbers: int) -> None:
    """Append memories as the plugin does, one commit each."""
    with LanceTable(folder, settings=TableSettings(compact_on_close=999)) as table:
        for number in numbers:
            table.add([entry(number)])


def test_new_table_lacks_every_index_but_that_of_vectors(folder: Path) -> None:
    with LanceTable(folder, read_only=True) as table:
        found = status(table, DEFAULT)
    assert [column for column, _ in found.missing] == COLUMNS
    assert (found.rows, found.small_fragments, found.indexes, found.reasons) == (6, 6, (), ())
    assert not found.healthy


def test_build_makes_what_is_missing_and_only_that(folder: Path) -> None:
    before = contents_in(folder).sha256
    with LanceTable(folder) as table:
        done = build(table, DEFAULT)
        assert done.changed == tuple(f"{column}_idx" for column in COLUMNS)
        assert {index.kind for index in done.after.indexes} == {"bitmap", "btree", "fts"}
        assert [(index.rows, index.unindexed, index.stale) for index in done.after.indexes] == [(6, 0, False)] * 5
        assert done.after.healthy
        assert done.after.version == done.before.version + len(COLUMNS)
        again = build(table, DEFAULT)
        assert (again.changed, again.after.version) == ((), done.after.version)
    assert contents_in(folder).sha256 == before


def test_interrupted_build_is_continued(folder: Path) -> None:
    from lancedb.index import Bitmap

    with quiet_lance():
        raw_table(folder).create_index("scope", config=Bitmap())
    with LanceTable(folder) as table:
        assert build(table, DEFAULT).changed == tuple(f"{column}_idx" for column in COLUMNS[1:])


def test_index_is_stale_from_the_share_of_rows_outside_it(folder: Path) -> None:
    with LanceTable(folder) as table:
        build(table, DEFAULT)
    add(folder, 6)
    with LanceTable(folder, read_only=True) as table:
        found = status(table, Thresholds(unindexed=1 / 7))
        assert all(index.stale for index in found.indexes)
        assert found.reasons[0] == "category_idx lacks 1 of 7 rows"
        assert status(table, Thresholds(unindexed=0.15)).healthy


def test_optimize_acts_from_a_threshold_on(folder: Path) -> None:
    with LanceTable(folder) as table:
        build(table, DEFAULT)
    add(folder, 6)
    loose = Thresholds(unindexed=0.5)
    with LanceTable(folder) as table:
        version = table.version
        assert optimize(table, loose).changed == ()
        assert table.version == version
        done = optimize(table, replace(loose, fragments=7))
        assert done.changed[0] == "files"
        # LanceDB does not merge rows that are in an index with rows that are not.
        assert (done.before.small_fragments, done.after.small_fragments) == (7, 2)
        assert sorted(done.changed[1:]) == sorted(f"{column}_idx" for column in COLUMNS)
        assert [index.unindexed for index in done.after.indexes] == [0] * 5
        assert done.after.reasons == ()
    add(folder, 7)
    with LanceTable(folder) as table:
        assert "text_idx" in optimize(table, replace(loose, unindexed=0)).changed


def test_rebuild_takes_the_words_that_are_given(folder: Path) -> None:
    def words(table: LanceTable) -> str:
        return next(index.words for index in status(table, DEFAULT).indexes if index.kind == "fts")

    with LanceTable(folder) as table:
        build(table, DEFAULT)
        assert words(table) == "simple"
        assert build(table, DEFAULT, words="icu").changed == ()
        assert sorted(build(table, DEFAULT, words="icu", rebuild=True).changed) == sorted(
            f"{column}_idx" for column in COLUMNS
        )
        assert words(table) == "icu/split"


def test_words_of_the_index_decide_what_is_found(tmp_path: Path) -> None:
    from lancedb.query import MatchQuery

    found = {}
    for words in ("none", "simple", "ngram", "icu"):
        folder = tmp_path / words
        folder.mkdir()
        plugin_table(folder, 1, 2, texts=("客戶偏好藍色的瓷磚", "The tiles were BLUE"))
        with LanceTable(folder) as table:
            if words != "none":
                build(table, DEFAULT, words=words)

            def hits(query: str, table: LanceTable = table) -> list[int]:
                search = MatchQuery(query, "text")
                rows = table.ask(lambda opened: opened.search(search, query_type="fts").limit(5).to_list())
                return [int(row["createdAt"]) - 1_760_000_000_000 for row in rows]

            found[words] = [hits("瓷磚"), hits("blue"), hits("tile")]
    # Chinese, another case, another ending.
    assert found == {
        "none": [[], [], []],
        "simple": [[], [2], [2]],
        "ngram": [[1], [2], [2]],
        "icu": [[1], [2], [2]],
    }


def test_ngrams_have_two_and_three_characters() -> None:
    options = text_options("ngram")
    assert (options["base_tokenizer"], options["ngram_min_length"], options["ngram_max_length"]) == ("ngram", 2, 3)


def many(folder: Path, count: int, *, zero: int = 0) -> None:
    """Add memories with random vectors, ``zero`` of them without one, in one commit."""
    vectors = np.random.default_rng(0).normal(size=(count, DIMENSION)).astype(np.float32)
    vectors[:zero] = 0
    with LanceTable(folder, create=DIMENSION, settings=TableSettings(compact_on_close=999)) as table:
        table.add([replace(entry(number), vector=vectors[number]) for number in range(count)])


def test_vectors_get_an_index_from_the_threshold_on(tmp_path: Path) -> None:
    many(tmp_path / "few", 255)
    many(tmp_path / "enough", 256, zero=9)
    with LanceTable(tmp_path / "few") as table:
        assert "vector_idx" not in build(table, VECTORS).changed
        assert agreement_of(table) == 1.0
    with LanceTable(tmp_path / "enough") as table:
        done = build(table, VECTORS)
        assert "vector_idx" in done.changed
        assert done.agreement is not None
        assert 0.5 < done.agreement <= 1
        vector = next(index for index in done.after.indexes if index.columns == ("vector",))
        assert (vector.kind, vector.distance, vector.rows) == ("ivf_flat", "l2", 256)


def test_commands_of_the_lab_search_exactly_beside_a_vector_index(tmp_path: Path) -> None:
    many(tmp_path / "store", 600)
    query = list(np.random.default_rng(1).normal(size=DIMENSION))
    with LanceTable(tmp_path / "store") as table:
        before = table.nearest(query, 20)
        build(table, VECTORS)
        assert table.nearest(query, 20) == before


def test_table_of_another_schema_is_refused(tmp_path: Path, shared: Callable[..., Path]) -> None:
    store = tmp_path / "theirs"
    shutil.copytree(shared("live", "lancedb", "memory-lancedb-2026.3.13"), store)
    for path in (store, *store.rglob("*")):
        path.chmod(0o700)
    with LanceTable(store, read_only=True) as table:
        # Its own plugin made it: what it has can be shown.
        assert [column for column, _ in status(table, DEFAULT).missing] == ["category", "createdAt", "text"]
    with pytest.raises(UnusableInput, match="has no column importance_label, scope"):
        LanceTable(store)


def test_real_store_of_the_engine_gets_indexes(tmp_path: Path, shared: Callable[..., Path]) -> None:
    store = tmp_path / "engine"
    shutil.copytree(shared("live", "lancedb", "engine-2026.9.6"), store)
    for path in (store, *store.rglob("*")):
        path.chmod(0o700)
    before = contents_in(store)
    with LanceTable(store) as table:
        assert build(table, DEFAULT).after.healthy
        optimize(table, Thresholds(fragments=2))
        assert status(table, DEFAULT).fragments == 1
    assert contents_in(store)._replace(version=before.version) == before


def test_receipts_have_fields_and_no_texts(folder: Path) -> None:
    with LanceTable(folder) as table:
        shown: dict[str, Any] = receipt_of("status", table, status(table, DEFAULT), 0)
        done = receipt_of("build", table, build(table, DEFAULT), 0)
    assert {"schema", "op", "dbPath", "version", "rows", "index", "missing", "optimizeDue", "latencyMs"} <= {*shown}
    assert {*done["after"]["index"][0]} == {
        *("name", "kind", "columns", "rows", "unindexedRows", "builtAt", "stale", "bytes")
    }
    assert done["before"]["index"] == []
    assert "memory number" not in str(shown) + str(done)
