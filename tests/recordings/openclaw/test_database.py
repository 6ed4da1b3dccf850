"""Tests of sessions in SQLite: reading, also during writes, and messages about unreadable databases."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import CannotMeasure, UnusableInput
from lab.recordings.readers import Library, read_library

NAME = "openclaw-agent.sqlite"
MakeDatabase = Callable[..., Path]


def read(path: Path) -> Library:
    return read_library(path, "openclaw")


def said(library: Library) -> list[list[str]]:
    return [[turn.text for turn in recording.turns] for recording in library.recordings]


def contents(folder: Path) -> dict[str, bytes]:
    return {child.name: child.read_bytes() for child in folder.iterdir()}


def change(path: Path, *statements: tuple[Any, ...]) -> None:
    connection = sqlite3.connect(path)
    with connection:
        for statement, *values in statements:
            connection.execute(statement, values)
    connection.close()


@contextmanager
def holding(path: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """Start another process that opens the database as ``db`` and prints a line when it is ready."""
    begin = "import sqlite3, sys, time\ndb = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    process = subprocess.Popen(
        [sys.executable, "-c", begin + code, str(path)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def talk(new_log: Any) -> Any:
    log = new_log()
    log.says("user", "one")
    log.stores("The gate sticks", "row-1", wrapped=True)
    log.says("user", "two")
    return log


def test_database_reads_as_its_json_lines(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk, packed=(2, 3, 4))
    (tmp_path / "a.jsonl").write_text(talk.text(), "utf-8")
    found, plain = read(path), read(tmp_path / "a.jsonl")
    assert found.recordings == plain.recordings
    # A file alone does not say what started the session.
    assert [recording.origin for recording in (*found.recordings, *plain.recordings)] == ["person", "unknown"]
    assert said(found) == [["one", "two"]]
    assert sorted(found.names) == [NAME]
    assert sorted(child.name for child in tmp_path.iterdir()) == ["a.jsonl", NAME]


@pytest.mark.process
def test_database_is_read_while_another_process_writes(
    tmp_path: Path, talk: Any, new_log: Any, make_database: MakeDatabase
) -> None:
    other = new_log("3b0d5a52-0000-4000-8000-000000000002")
    other.says("user", "elsewhere")
    path = make_database(tmp_path / NAME, talk, other)
    # Each transaction adds an event to both sessions, so a consistent snapshot has equally many events of both.
    code = """
db.execute("PRAGMA journal_mode = WAL")
n = 100
while True:
    db.execute("BEGIN IMMEDIATE")
    for (s,) in db.execute("SELECT session_id FROM session_windows").fetchall():
        text = '{"type": "message", "id": "w%d", "message": {"role": "user", "content": "w%d"}}' % (n, n)
        db.execute("INSERT INTO transcript_events VALUES (?, ?, ?, 0, NULL, NULL, NULL)", (s, n, text))
    db.execute("COMMIT")
    n += 1
    if n == 120:
        print("ready", flush=True)
    time.sleep(0.001)
"""
    with holding(path, code):
        before = {child.name for child in tmp_path.iterdir()}
        counts, digests = [], []
        for _ in range(8):
            library = read(path)
            one, two = (sum(text.startswith("w") for text in texts) for texts in said(library))
            assert one == two >= 20
            counts.append(one)
            digests.append(library.checksums()[NAME])
        assert counts == sorted(counts)
        assert counts[0] < counts[-1]
        assert len(set(digests)) == len(set(counts))
        assert {child.name for child in tmp_path.iterdir()} == before


@pytest.mark.process
def test_log_of_a_killed_process_is_read_and_kept(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    code = """
db.execute("PRAGMA journal_mode = WAL")
text = '{"type": "message", "id": "late", "message": {"role": "user", "content": "late"}}'
db.execute("INSERT INTO transcript_events SELECT session_id, 50, ?, 0, NULL, NULL, NULL FROM session_windows", (text,))
print("ready", flush=True)
time.sleep(60)
"""
    with holding(path, code):
        held = contents(tmp_path)
        assert sorted(held) == [NAME, f"{NAME}-shm", f"{NAME}-wal"]
        assert said(read(path)) == [["one", "two", "late"]]
        assert contents(tmp_path) == held
    assert said(read(path)) == [["one", "two", "late"]]
    assert contents(tmp_path) == held
    (tmp_path / f"{NAME}-shm").unlink()
    del held[f"{NAME}-shm"]
    assert said(read(path)) == [["one", "two", "late"]]
    assert contents(tmp_path) == held


@pytest.mark.process
def test_interrupted_write_is_rolled_back_in_a_copy(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    code = """
db.execute("PRAGMA cache_size = 1")
db.execute("BEGIN")
for n in range(100, 400):
    row = "SELECT session_id, ?, ?, 0, NULL, NULL, NULL FROM session_windows"
    db.execute("INSERT INTO transcript_events " + row, (n, "{" * 999))
print("ready", flush=True)
time.sleep(60)
"""
    with holding(path, code):
        pass
    held = {child.name: child.read_bytes() for child in tmp_path.iterdir()}
    assert f"{NAME}-journal" in held
    assert said(read(path)) == [["one", "two"]]
    assert {child.name: child.read_bytes() for child in tmp_path.iterdir()} == held


def test_database_without_a_log_leaves_nothing_beside_it(
    tmp_path: Path, talk: Any, make_database: MakeDatabase
) -> None:
    path = make_database(tmp_path / NAME, talk)
    change(path, ("PRAGMA journal_mode = WAL",))
    assert sorted(child.name for child in tmp_path.iterdir()) == [NAME]
    assert said(read(path)) == [["one", "two"]]
    assert sorted(child.name for child in tmp_path.iterdir()) == [NAME]


@pytest.mark.process
def test_locked_database_is_reported(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    with (
        holding(path, 'db.execute("BEGIN EXCLUSIVE")\nprint("ready", flush=True)\ntime.sleep(60)'),
        pytest.raises(CannotMeasure) as caught,
    ):
        read(path)
    assert str(caught.value) == (
        f"{path}: is locked by another process; try again when it has finished, or stop the gateway"
    )


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"", "is empty, so it is not an SQLite database"),
        (b'{"type": "session"}\n', "is not an SQLite database"),
        (b"SQLite format 3\0", "is not an SQLite database"),
    ],
)
def test_file_that_is_not_a_database_is_refused(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(UnusableInput) as caught:
        read(tmp_path / NAME)
    assert str(caught.value) == f"{tmp_path / NAME}: {what}; give the agent's openclaw-agent.sqlite"


def test_database_truncated_anywhere_is_refused(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    whole = make_database(tmp_path / "whole.sqlite", talk).read_bytes()
    path = tmp_path / NAME
    for size in range(100, len(whole), 1000):
        path.write_bytes(whole[:size])
        with pytest.raises(UnusableInput, match="is truncated") as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_damaged_database_is_refused(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    data = bytearray(path.read_bytes())
    for place in range(4096, len(data), 4096):
        data[place : place + 200] = b"\xff" * 200
    path.write_bytes(data)
    with pytest.raises(UnusableInput, match=r"is damaged or truncated \(.*\); restore it from a backup"):
        read(path)


def test_later_schema_is_read_and_differences_noted(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    change(
        path,
        ("ALTER TABLE transcript_events ADD COLUMN shard INTEGER",),
        ("DROP TABLE session_transcript_archives",),
        ("CREATE TABLE session_transcript_cold_archives (session_id TEXT)",),
        ("INSERT INTO session_transcript_cold_archives VALUES ('x')",),
        ("PRAGMA user_version = 27",),
    )
    library = read(path)
    differs = ("no table session_transcript_archives", "a new column transcript_events.shard")
    assert said(library) == [["one", "two"]]
    assert library.golden.notes[:2] == (
        f"{path}: schema version 27 (known: 23); differences: {', '.join(differs)}",
        f"{path}: table session_transcript_cold_archives has rows that the lab does not read: 1",
    )


def test_schema_that_lacks_a_column_is_refused(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    change(path, ("ALTER TABLE transcript_events RENAME COLUMN event_zstd TO event_br",), ("PRAGMA user_version = 31",))
    with pytest.raises(UnusableInput) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: schema version 31 (known: 23) lacks event_zstd in transcript_events, so its events cannot be read; "
        "differences: no column transcript_events.event_zstd, a new column transcript_events.event_br"
    )


def test_database_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / NAME
    change(path, ("CREATE TABLE songs (name TEXT)",))
    with pytest.raises(UnusableInput) as caught:
        read(path)
    assert str(caught.value) == (
        f"{path}: has no table transcript_events, so it is not the database of an OpenClaw agent (user_version 0; "
        "tables: songs); give agents/<id>/agent/openclaw-agent.sqlite"
    )


@pytest.mark.parametrize(
    ("packed", "size", "why"),
    [
        (b"no frame at all", 10, "cannot be decompressed (ZSTD decompress failed: Unknown frame descriptor)"),
        (
            pa.compress(b"x" * 500, codec="zstd", asbytes=True)[:-4],
            500,
            "cannot be decompressed (Truncated compressed stream)",
        ),
        (pa.compress(b"x" * 500, codec="zstd", asbytes=True), 499, "decompresses to more than 499 bytes"),
        (pa.compress(b"x" * 500, codec="zstd", asbytes=True), 501, "decompresses to 500 bytes instead of 501"),
        (pa.compress(b"x" * (1 << 20), codec="zstd", asbytes=True), 9, "decompresses to more than 9 bytes"),
        (b"", 10, "decompresses to 0 bytes instead of 10"),
        (b"x", 1 << 40, "has an invalid size: 1099511627776 bytes"),
        (b"x", None, "has an invalid size: None bytes"),
        (pa.compress(b"not json", codec="zstd", asbytes=True), 8, "is not a JSON object with a type"),
    ],
)
def test_event_that_cannot_be_decompressed_is_skipped(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, packed: bytes, size: int | None, why: str
) -> None:
    path = make_database(tmp_path / NAME, talk)
    changed = "UPDATE transcript_events SET event_json = NULL, event_zstd = ?, event_utf8_bytes = ? WHERE seq = 1"
    change(path, (changed, packed, size))
    library = read(path)
    assert said(library) == [["two"]]
    assert f"{talk.id}: event 1 (seq) {why} and was skipped" in library.golden.notes
    assert library.inventory is not None
    assert {skipped.what: skipped.count for skipped in library.inventory.passed}[
        "lines or events that are not entries"
    ] == 1


def test_leaf_of_the_database_ends_the_branch(tmp_path: Path, new_log: Any, make_database: MakeDatabase) -> None:
    log = new_log()
    first = log.says("user", "one")
    log.says("user", "taken back")
    path = make_database(tmp_path / NAME, log)
    change(path, ("UPDATE session_transcript_index_state SET leaf_event_id = ?", first))
    library = read(path)
    assert said(library) == [["one"]]
    assert library.golden.notes[0].endswith(
        "according to the database, the active branch ends before the last event; events that differ: 1"
    )
    assert library.golden.notes[1].endswith("the database and the parent links: 1")
    for unsound in (
        "SET needs_rebuild = 1",
        "SET needs_rebuild = 0, indexed_seq = 1",
        "SET indexed_seq = 2, leaf_event_id = 'gone'",
    ):
        change(path, (f"UPDATE session_transcript_index_state {unsound}",))
        assert said(read(path)) == [["one", "taken back"]]


def test_session_without_a_turn_is_skipped(
    tmp_path: Path, talk: Any, new_log: Any, make_database: MakeDatabase
) -> None:
    silent = new_log("3b0d5a52-0000-4000-8000-000000000002")
    silent.says("user", "[OpenClaw heartbeat poll]")
    library = read(make_database(tmp_path / NAME, talk, silent))
    assert [recording.conversation for recording in library.recordings] == [talk.id]
    assert library.inventory is not None
    passed = {skipped.what: skipped.count for skipped in library.inventory.passed}
    assert passed["sessions without a turn"] == 1


def test_origin_comes_from_the_key_before_the_creation(
    tmp_path: Path, talk: Any, new_log: Any, make_database: MakeDatabase
) -> None:
    job = new_log("3b0d5a52-0000-4000-8000-000000000002")
    job.says("user", "nightly")
    keys = {talk.id: "agent:main:garden", job.id: "agent:main:cron:nightly"}
    library = read(make_database(tmp_path / NAME, talk, job, keys=keys, via="channel"))
    assert library.inventory is not None
    found = [(stock.stored, stock.origin, stock.turns) for stock in library.inventory.stocks]
    assert found == [("SQLite 23 (2026.9.6)", "cron", 1), ("SQLite 23 (2026.9.6)", "person", 2)]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_log_in_a_read_only_folder_is_read(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / "in" / NAME, talk)
    with holding(path, 'db.execute("PRAGMA journal_mode = WAL")\nprint("ready", flush=True)\ntime.sleep(60)'):
        shutil.copytree(tmp_path / "in", tmp_path / "copy")
    (tmp_path / "copy").chmod(0o555)
    try:
        assert said(read(tmp_path / "copy" / NAME)) == [["one", "two"]]
    finally:
        (tmp_path / "copy").chmod(0o755)


def test_spoilt_text_does_not_stop_reading(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    path = make_database(tmp_path / NAME, talk)
    change(path, ("UPDATE transcript_events SET event_json = CAST(? AS TEXT) WHERE seq = 1", b'{"type": "\xff"}'))
    assert said(read(path)) == [["two"]]
    assert json.loads(talk.text().splitlines()[1])["type"] == "message"
