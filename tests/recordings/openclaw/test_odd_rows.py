"""Tests of database rows with wrong types: they never prevent the other rows from being read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.openclaw.test_database import NAME, MakeDatabase, change, read, said


@pytest.fixture
def talk(new_log: Any) -> Any:
    log = new_log()
    log.says("user", "one")
    log.says("user", "two")
    return log


def untyped(path: Path) -> Path:
    """Recreate the tables without types and keys, so that a column accepts any value."""
    for table in ("transcript_events", "session_transcript_active_events", "session_transcript_index_state"):
        with closing(sqlite3.connect(path)) as connection:
            columns = connection.execute(f"SELECT group_concat(name) FROM pragma_table_info('{table}')").fetchone()[0]
        change(
            path,
            (f"CREATE TABLE copy AS SELECT * FROM {table}",),
            (f"DROP TABLE {table}",),
            (f"CREATE TABLE {table} ({columns})",),
            (f"INSERT INTO {table} SELECT * FROM copy",),
            ("DROP TABLE copy",),
        )
    return path


@pytest.mark.parametrize(
    ("seq", "shown"), [(None, "NULL"), ("x", "x"), (1.5, "1.5"), (float("inf"), "inf"), (b"\xff", "\ufffd")]
)
def test_event_with_invalid_seq_is_skipped_and_noted(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, seq: object, shown: str
) -> None:
    path = untyped(make_database(tmp_path / NAME, talk))
    change(path, ("UPDATE transcript_events SET seq = ? WHERE seq = 1", seq))
    library = read(path)
    assert said(library) == [["two"]]
    why = f"{talk.id}: an event has a seq that is not an integer ({shown!r}) and was skipped"
    assert why in library.golden.notes
    assert library.inventory is not None
    assert {skipped.what: skipped.count for skipped in library.inventory.passed}[
        "lines or events that are not entries"
    ] == 1


@pytest.mark.parametrize(
    ("session", "name"), [(None, "session"), (7, "7"), (b"blob", "blob"), (1.5, "1.5"), ("\u00e9", "\u00e9")]
)
def test_session_whose_id_is_not_text_is_read(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, session: object, name: str
) -> None:
    path = untyped(make_database(tmp_path / NAME, talk))
    change(path, ("UPDATE transcript_events SET session_id = ?", session))
    library = read(path)
    assert [recording.conversation for recording in library.recordings] == [name]
    assert said(library) == [["one", "two"]]


@pytest.mark.parametrize("value", [7, 1.5, float("inf"), b"\xff\x00", "", "[" * 100_000, "1" * 5000])
def test_event_of_another_type_is_skipped(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, value: object
) -> None:
    path = untyped(make_database(tmp_path / NAME, talk))
    change(path, ("UPDATE transcript_events SET event_json = ? WHERE seq = 1", value))
    assert said(read(path)) == [["two"]]


def test_event_that_is_a_blob_of_json_is_read(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = untyped(make_database(tmp_path / NAME, talk))
    change(path, ("UPDATE transcript_events SET event_json = CAST(event_json AS BLOB)",))
    assert said(read(path)) == [["one", "two"]]


def test_index_with_invalid_values_does_not_stop_reading(
    tmp_path: Path, talk: Any, make_database: MakeDatabase
) -> None:
    path = untyped(make_database(tmp_path / NAME, talk))
    for value in (None, b"\xff", "x", 1.5):
        change(
            path,
            ("UPDATE session_transcript_active_events SET event_seq = ? WHERE active_position = 0", value),
            ("UPDATE session_transcript_index_state SET indexed_seq = 50",),
            ("INSERT INTO session_transcript_active_events VALUES (?, ?, ?, ?, ?)", *[value] * 5),
        )
        assert said(read(path)) == [["one", "two"]]
        change(path, ("UPDATE session_transcript_index_state SET indexed_seq = ?", value))
        assert said(read(path)) == [["one", "two"]]
