"""The table in LanceDB: columns, reading, commits, backfill, read-only mode (E-94, E-97)."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.memory.table.lance_table import LanceTable, TableSettings
from lab.memory.tools.session import Session
from lab.replay.memories_from import read_stored
from lab.retrieval.quiet import import_lancedb
from lab.systems.openclaw.table.schema import ADDED, PLUGIN, arrow_of, schema
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table, uuid


def test_add_keeps_order_and_every_field(tmp_path: Path) -> None:
    hard = entry(2, "[HARD] never push on Friday", media_refs=("a.png", "b.png"), media_kind="image", due_at=5)
    hard = replace(hard, row=replace(hard.row, hard_rule=True))
    with LanceTable(tmp_path, create=DIMENSION) as table:
        table.add([entry(3)])
        table.add([entry(1), hard])
        assert [row.id for row in table.rows()] == [uuid(3), uuid(1), uuid(2)]
    stored = raw_table(tmp_path).to_arrow().to_pylist()
    assert {name: stored[2][name] for name in ADDED} == {
        "source_kind": "tool",
        "source_ref": "memory_store",
        "lang": "en",
        "hard_rule": True,
        "media_refs": '["a.png", "b.png"]',
        "media_kind": "image",
        "due_at": "1970-01-01T00:00:00.005Z",
    }
    with LanceTable(tmp_path, read_only=True) as table:
        row = table.rows()[2]
        assert (row.text, row.hard_rule, row.created_at, row.importance) == (
            hard.row.text,
            True,
            1_760_000_000_002,
            0.5,
        )
    assert [memory.key for memory in read_stored(tmp_path).memories] == [uuid(3), uuid(1), uuid(2)]


def test_rows_after_own_and_foreign_changes_equal_a_fresh_read(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION, settings=TableSettings(compact_every=3)) as table:
        for number in range(7):
            table.rows()
            table.add([entry(number)])
        raw_table(tmp_path).delete(f"id = '{uuid(2)}'")
        assert table.delete([uuid(0), uuid(99)]) == 1
        assert [row.id for row in table.rows()] == [uuid(number) for number in (1, 3, 4, 5, 6)]
        with LanceTable(tmp_path, read_only=True) as fresh:
            assert list(table.rows()) == list(fresh.rows())


def test_nearest_sorts_by_distance_within_a_scope(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION) as table:
        table.add([entry(1, scope="team"), entry(2), entry(9)])
        near = table.nearest(entry(1).vector, 5)
        assert [(found.row.id, found.distance) for found in near] == [(uuid(1), 0.0), (uuid(9), 0.0), (uuid(2), 2.0)]
        assert [found.row.id for found in table.nearest(entry(1).vector, 5, "team")] == [uuid(1)]


def test_nearest_in_global_includes_blank_scopes_and_no_bootstrap_row(tmp_path: Path) -> None:
    table = plugin_table(tmp_path, 1)
    bootstrap = entry(2)
    bootstrap = replace(bootstrap, row=replace(bootstrap.row, id="__schema__", scope=""))
    table.add(arrow_of([bootstrap, entry(3, scope="")], table.schema, DIMENSION, tmp_path))
    with LanceTable(tmp_path, read_only=True) as read:
        assert [row.id for row in read.rows()] == [uuid(1), uuid(3)]
        assert {found.row.id for found in read.nearest(entry(1).vector, 5, "global")} == {uuid(1), uuid(3)}
        assert len(read.contents().vectors) == 2


def test_row_with_a_zero_vector_is_not_embedded(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION) as table:
        table.rows()
        table.add([replace(entry(1), vector=[0.0] * DIMENSION), entry(2)])
        assert [row.embedded for row in table.rows()] == [False, True]
    with LanceTable(tmp_path, read_only=True) as table:
        assert [row.embedded for row in table.rows()] == [False, True]


def test_vector_of_another_length_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION) as table:
        with pytest.raises(UnusableInput, match="a vector of 3 numbers does not fit the table, whose vectors have 8"):
            table.add([entry(1), replace(entry(2), vector=[1.0, 2.0, 3.0])])
        with pytest.raises(UnusableInput, match="not finite"):
            table.add([replace(entry(2), vector=[float("inf")] * DIMENSION)])
        assert not table.rows()


def test_compaction_keeps_versions_until_they_are_old(tmp_path: Path) -> None:
    plugin_table(tmp_path, *range(12))
    with LanceTable(tmp_path, settings=TableSettings(compact_every=2)) as table:
        table.add([entry(20)])
        table.add([entry(21)])
        assert table.describe()["fragments"] == 1
    # The versions of the plugin are still there.
    old = raw_table(tmp_path)
    old.checkout(5)
    assert old.count_rows() == 4
    with LanceTable(tmp_path, settings=TableSettings(keep_seconds=0)) as table:
        table.compact()
        assert len(table.rows()) == 14
    assert len(list((tmp_path / "memories.lance" / "_versions").glob("*.manifest"))) == 1


def test_single_store_in_a_table_of_the_plugin_does_not_compact_it(tmp_path: Path) -> None:
    plugin_table(tmp_path, *range(12))
    with LanceTable(tmp_path) as table:
        table.add([entry(20)])
    with LanceTable(tmp_path, read_only=True) as table:
        assert table.describe()["fragments"] == 13


def test_backfill_adds_columns_values_and_keeps_order(tmp_path: Path) -> None:
    texts = ("The kettle is red", "用戶喜歡烏龍茶", "[HARD] never push", "用戶住在台北")
    plugin_table(tmp_path, 4, 1, 3, 2, texts=texts)
    with LanceTable(tmp_path) as table:
        before = table.contents()
        assert table.unfilled() == 4
        assert table.backfill() == (ADDED, 4)
        assert table.backfill() == ((), 0)
        after = table.contents()
        assert [row.text for row in after.rows] == [row.text for row in before.rows] == list(texts)
        assert (after.vectors == before.vectors).all()
    stored = raw_table(tmp_path).to_arrow().to_pylist()
    assert [row["lang"] for row in stored] == ["en", "zh", "en", "zh"]
    assert [row["hard_rule"] for row in stored] == [False, False, True, False]
    assert [row["source_kind"] for row in stored] == [None] * 4


def test_plugin_can_append_after_a_backfill_and_the_next_one_fills_its_rows(tmp_path: Path) -> None:
    plugin_table(tmp_path, 1)
    with LanceTable(tmp_path) as table:
        table.backfill()
        raw = raw_table(tmp_path)
        # The plugin names its own columns only.
        raw.add(arrow_of([entry(2, "用戶住在台北")], schema(DIMENSION, ()), DIMENSION, tmp_path))
        assert [row.id for row in table.rows()] == [uuid(1), uuid(2)]
        assert table.unfilled() == 1
        assert table.backfill() == ((), 1)
        assert table.unfilled() == 0
    assert [row["lang"] for row in raw_table(tmp_path).to_arrow().to_pylist()] == ["en", "zh"]


def test_new_table_accepts_rows_of_the_plugin(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION) as table:
        raw_table(tmp_path).add(arrow_of([entry(2)], schema(DIMENSION, ()), DIMENSION, tmp_path))
        assert [row.id for row in table.rows()] == [uuid(2)]


def test_store_in_an_older_table_names_the_columns_that_it_lacks(tmp_path: Path) -> None:
    plugin_table(tmp_path, 1)
    with LanceTable(tmp_path) as table:
        table.add([entry(2)])
        assert table.left_out == {"source_kind", "source_ref", "lang"}
        (note,) = [note for note in Session(table, None, None).notes if "has no column" in note]  # type: ignore[arg-type]  # notes read the table alone
        assert note.endswith(
            "has no column lang, source_kind, source_ref, so these values were not kept; lab memory backfill adds all "
            "that is missing: source_kind, source_ref, lang, hard_rule, media_refs, media_kind, due_at"
        )
        assert [row.id for row in table.rows()] == [uuid(1), uuid(2)]


@pytest.mark.parametrize(("kind", "due"), [(pa.int64(), 5), (pa.float64(), 5.0), (pa.string(), "1970-01-01")])
def test_due_times_of_another_type_are_read(tmp_path: Path, kind: pa.DataType, due: object) -> None:
    plugin_table(tmp_path, 1).add_columns(pa.schema([pa.field("due_at", kind)]))
    raw_table(tmp_path).update(values={"due_at": due})
    (memory,) = read_stored(tmp_path).memories
    assert memory.due_at == (86_399_999 if kind == pa.string() else 5)


@pytest.mark.parametrize("kind", [pa.int32(), pa.float32(), pa.bool_()])
def test_due_times_that_cannot_hold_a_time_are_refused(tmp_path: Path, kind: pa.DataType) -> None:
    plugin_table(tmp_path, 1).add_columns(pa.schema([pa.field("due_at", kind)]))
    with pytest.raises(UnusableInput, match=f"'due_at' .* holds {kind}, not text or numbers of 64 bits"):
        LanceTable(tmp_path)


def test_read_only_table_refuses_changes(tmp_path: Path) -> None:
    plugin_table(tmp_path, 1)
    with LanceTable(tmp_path, read_only=True) as table:
        for change in (lambda: table.add([entry(2)]), lambda: table.delete([uuid(1)]), table.backfill):
            with pytest.raises(UnusableInput, match="nothing is written, because it was opened read-only"):
                change()
        assert len(table.rows()) == 1


@pytest.mark.parametrize("part", [".", "memories.lance", "memories.lance/_versions", "memories.lance/data"])
def test_write_protected_table_is_only_read(tmp_path: Path, part: str) -> None:
    store = tmp_path / "store"
    store.mkdir()
    plugin_table(store, 1)
    files = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    (store / part).chmod(0o555)
    try:
        # Root may write whatever the permissions say, so they are checked and not tried.
        for despite in (False, True):
            with LanceTable(store, despite_gateway=despite) as table:
                assert table.read_only_reason == f"{store / part} is write-protected (chmod u+w permits it)"
                with pytest.raises(UnusableInput, match="write-protected"):
                    table.add([entry(2)])
    finally:
        (store / part).chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == files


def test_new_table_below_a_write_protected_folder_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    archive.mkdir(mode=0o555)
    for folder in (archive, archive / "new" / "store"):
        with pytest.raises(UnusableInput, match="archive is write-protected"):
            LanceTable(folder, create=DIMENSION)
    assert not list(archive.iterdir())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": pa.string(), "text": pa.string()}, "has no column vector, createdAt"),
        (
            {"id": pa.string(), "text": pa.string(), "vector": pa.list_(pa.float32()), "createdAt": pa.float64()},
            "one l",
        ),
        (
            {"id": pa.string(), "text": pa.int64(), "vector": pa.list_(pa.float32(), 2), "createdAt": pa.float64()},
            "text",
        ),
    ],
)
def test_table_of_something_else_is_refused(tmp_path: Path, columns: dict[str, pa.DataType], message: str) -> None:
    import_lancedb().connect(str(tmp_path)).create_table("memories", schema=pa.schema(list(columns.items())))
    with pytest.raises(UnusableInput, match=message):
        LanceTable(tmp_path)
    # A refused table is not left locked.
    with pytest.raises(UnusableInput, match=message):
        LanceTable(tmp_path)


def test_table_of_memory_lancedb_is_read_and_not_written(tmp_path: Path) -> None:
    names = ("id", "text", "vector", "importance", "category", "createdAt")
    old = pa.schema([schema(DIMENSION).field(name) for name in names])
    data = arrow_of([entry(1)], schema(DIMENSION, ()), DIMENSION, tmp_path).select(names)
    import_lancedb().connect(str(tmp_path)).create_table("memories", data, schema=old)
    with LanceTable(tmp_path, read_only=True) as table:
        (row,) = table.rows()
        assert (row.importance_label, row.scope, row.trust_tier) == ("nice_to_have", "global", "unknown")
        assert len(table.nearest(entry(1).vector, 3, "global")) == 1
        assert not table.nearest(entry(1).vector, 3, "team")
    with pytest.raises(UnusableInput, match="has no column importance_label, scope, trust_tier"):
        LanceTable(tmp_path)


def test_folder_without_a_version_counts_as_no_table(tmp_path: Path) -> None:
    (tmp_path / "memories.lance" / "_versions").mkdir(parents=True)
    with LanceTable(tmp_path, create=DIMENSION) as table:
        table.add([entry(1)])
        assert len(table.rows()) == 1


def test_missing_and_damaged_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="is not a LanceDB folder with a table 'memories'"):
        LanceTable(tmp_path / "none")
    assert not (tmp_path / "none").exists()
    plugin_table(tmp_path, 1)
    with pytest.raises(UnusableInput, match="give the folder that contains it"):
        LanceTable(tmp_path / "memories.lance")
    for path in (tmp_path / "memories.lance" / "_versions").iterdir():
        path.write_bytes(b"no manifest at all, but long enough")
    with pytest.raises(UnusableInput, match="cannot be read"):
        LanceTable(tmp_path, read_only=True)


def test_foreign_writer_at_the_same_time_loses_and_doubles_nothing(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def plugin() -> None:
        try:
            raw = raw_table(tmp_path)
            for number in range(100, 140):
                raw.add(arrow_of([entry(number)], schema(DIMENSION, ()), DIMENSION, tmp_path))
        except BaseException as error:
            errors.append(error)

    with LanceTable(tmp_path, create=DIMENSION, settings=TableSettings(compact_every=4, keep_seconds=3600)) as table:
        other = threading.Thread(target=plugin)
        other.start()
        for number in range(40):
            table.add([entry(number)])
            if number % 5 == 4:
                assert table.delete([uuid(number)]) == 1
        other.join()
        assert not errors
        kept = {uuid(number) for number in range(40) if number % 5 != 4} | {uuid(number) for number in range(100, 140)}
        assert sorted(row.id for row in table.rows()) == sorted(kept)


def test_columns_of_the_plugin_come_first(tmp_path: Path) -> None:
    with LanceTable(tmp_path, create=DIMENSION) as table:
        assert table.columns == (*PLUGIN, *ADDED)
    assert os.stat(tmp_path / ".lab-memory.lock").st_mode & 0o777 == 0o600


@pytest.fixture
def shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder at the head of Python's path, while LanceDB has not seen the package ``datasets``."""
    import_lancedb()
    scannable = import_module("lancedb.scannable")
    monkeypatch.setattr(scannable, "_registered_modules", scannable._registered_modules - {"datasets"})
    # Set first, so that what a test imports is removed after it.
    monkeypatch.setitem(sys.modules, "datasets", sys)
    monkeypatch.delitem(sys.modules, "datasets")
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


def test_add_beside_an_imported_folder_named_datasets_succeeds(tmp_path: Path, shadow: Path) -> None:
    (shadow / "datasets").mkdir()
    with LanceTable(tmp_path / "store", create=DIMENSION) as table:
        import_module("datasets")
        table.add([entry(1)])
        assert [row.id for row in table.rows()] == [uuid(1)]


def test_add_when_a_file_hides_a_library_names_that_file(tmp_path: Path, shadow: Path) -> None:
    (shadow / "datasets.py").touch()
    with LanceTable(tmp_path / "store", create=DIMENSION) as table:
        import_module("datasets")
        with pytest.raises(CannotMeasure, match=r"LanceDB cannot load a library .*datasets\.py"):
            table.add([entry(1)])
