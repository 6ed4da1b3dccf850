"""Writeback and decay where something is wrong: one line, an exit code, old rows as they were, and a way to go on."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.memory.table.lance_lock import WriterLock
from lab.systems.openclaw.table.schema import arrow_of, schema
from tests.commands import Done, run_here
from tests.memory.ledger.ledgers import filled, rows
from tests.memory.tools.lance_tables import DIMENSION, entry, plugin_table, raw_table, uuid
from tests.small_disk import Disk

COUNT = 40
COMMAND = ("--limit", str(COUNT), "--batch", "4", "--write")
UNKNOWN = "unknown"


def observed(number: int) -> dict[str, Any]:
    """Return an observation of a memory that was graded and has not been used since spring."""
    detail = {"memory_id": uuid(number), "importance": {"score": 0.6, "label": "nice_to_have"}}
    return {"ts": "2026-05-01T00:00:00Z", "tool_name": "memory_store", "summary": "x " * 500, "detail": detail}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return filled(tmp_path / "l.sqlite", [observed(number) for number in range(COUNT)])


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A table of ungraded memories. Texts of one batch have more than a disk of a few pages takes."""
    folder = tmp_path / "store"
    table = plugin_table(folder)
    given = schema(DIMENSION, ())
    data = arrow_of([entry(n, f"{n} {os.urandom(3000).hex()}") for n in range(COUNT)], given, DIMENSION, folder)
    table.add(data.set_column(data.schema.get_field_index("importance_label"), "importance_label", [[UNKNOWN] * COUNT]))
    return folder


def contents(folder: Path) -> dict[str, dict[str, Any]]:
    """Return all rows of a table by id, of which none may be there twice."""
    table = raw_table(folder).to_arrow().to_pylist()
    assert len({row["id"] for row in table}) == len(table) == COUNT
    return {row["id"]: row for row in table}


def labelled(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> int:
    """Return how many rows were written; each is as it was, or has the label of the ledger and no other change."""
    for identity, row in now.items():
        assert row in (before[identity], {**before[identity], "importance_label": "nice_to_have"})
    return sum(row["importance_label"] != UNKNOWN for row in now.values())


def refused(done: Done, code: int, *parts: str) -> None:
    """Check that a command failed with one line that says these things."""
    assert done.returncode == code, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("warning: "))
    assert line.startswith("error: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize("pages", [0, 1, 6, 12, 20, 40])
def test_full_disk_keeps_whole_batches_and_the_command_goes_on(
    ledger: Path, store: Path, disk: Disk, pages: int
) -> None:
    folder = shutil.copytree(store, disk.path / "store")
    before = contents(folder)
    disk.fill(pages)
    done = run_here("memory", "ledger", "writeback", ledger, folder, *COMMAND)
    refused(done, 4, str(folder), "No space left", "mend it and run the command again")
    written = labelled(before, contents(folder))
    assert written % 4 == 0
    assert written < COUNT
    assert pages < 40 or written
    disk.free()
    assert run_here("memory", "ledger", "writeback", ledger, folder, *COMMAND).returncode == 0
    assert labelled(before, contents(folder)) == COUNT


def test_disk_that_is_full_of_the_ledger_as_well_loses_nothing(ledger: Path, store: Path, disk: Disk) -> None:
    folder = shutil.copytree(store, disk.path / "store")
    path = Path(shutil.copy(ledger, disk.path / "l.sqlite"))
    disk.fill()
    before = rows(ledger)
    refused(run_here("memory", "ledger", "writeback", path, folder, *COMMAND), 4, "disk")
    decay = ("memory", "ledger", "decay", path, "--at", "2026-11-23", "--write")
    refused(run_here(*decay), 4, str(path))
    disk.free()
    assert rows(path) == before
    assert run_here(*decay).returncode == 0
    assert all(row.detail["lifecycle"]["state"] == "soft-archived" for row in rows(path))


@pytest.mark.process
def test_limit_of_file_sizes_is_told_like_a_full_disk(ledger: Path, store: Path) -> None:
    before = contents(store)

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # Enough for the index of SQLite's log, and not for a batch of all rows.
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))

    command = [sys.executable, "-m", "lab", "memory", "ledger", "writeback", str(ledger), str(store), *COMMAND]
    command[command.index("--batch") + 1] = str(COUNT)
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, env=os.environ)
    refused(done, 4, str(store), "File too large", "run the command again")
    assert labelled(before, contents(store)) == 0
    assert run_here("memory", "ledger", "writeback", ledger, store, *COMMAND).returncode == 0
    assert labelled(before, contents(store)) == COUNT


def test_table_that_another_process_writes_is_left_alone(ledger: Path, store: Path) -> None:
    before = contents(store)
    lock = WriterLock(store)
    lock.acquire("lab memory import")
    refused(
        run_here("memory", "ledger", "writeback", ledger, store, *COMMAND, "--wait", "0"),
        4,
        str(store),
        "lab memory import",
        "try again when it is done",
    )
    assert contents(store) == before
    # A dry run needs no lock.
    assert run_here("memory", "ledger", "writeback", ledger, store).returncode == 0
    lock.release()
    assert run_here("memory", "ledger", "writeback", ledger, store, *COMMAND).returncode == 0


def test_ledger_that_another_process_writes_can_be_read_and_not_written(
    ledger: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.memory.ledger.ledger.BUSY_SECONDS", 0.1)
    other = sqlite3.connect(ledger, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for words in (("decay", ledger, "--write"), ("used", ledger, "1", "--write")):
        refused(run_here("memory", "ledger", *words), 4, str(ledger), "wait for it to end and run the command again")
    assert run_here("memory", "ledger", "writeback", ledger, store, *COMMAND).returncode == 0
    other.execute("ROLLBACK")
    other.close()
    assert run_here("memory", "ledger", "used", ledger, "1", "--write").returncode == 0


def truncated(store: Path) -> None:
    """Cut the file of the rows."""
    (path,) = (store / "memories.lance" / "data").iterdir()
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lost(store: Path) -> None:
    """Remove the file of the rows."""
    (path,) = (store / "memories.lance" / "data").iterdir()
    path.unlink()


def garbled(store: Path) -> None:
    """Overwrite every manifest."""
    for path in (store / "memories.lance" / "_versions").iterdir():
        path.write_bytes(b"no manifest at all, but long enough")


@pytest.mark.parametrize("damage", [truncated, lost, garbled])
def test_damaged_table_is_left_as_it_is(ledger: Path, store: Path, damage: Callable[[Path], None]) -> None:
    damage(store)
    table = store / "memories.lance"
    before = {path: path.read_bytes() for path in table.rglob("*") if path.is_file()}
    for words in (("writeback", ledger, store, *COMMAND), ("writeback", ledger, store), ("drift", store)):
        refused(run_here("memory", "ledger", *words), 2, str(store), "damaged", "restore", "from a backup")
    assert {path: path.read_bytes() for path in table.rglob("*") if path.is_file()} == before


def foreign(path: Path) -> None:
    """Make a database of something else."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("CREATE TABLE songs (title TEXT)")


def older(path: Path) -> None:
    """Make a table of observations that lacks a column."""
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("CREATE TABLE observations (id INTEGER PRIMARY KEY, ts TEXT, kind TEXT, summary TEXT)")


def newer(path: Path) -> None:
    """Make a ledger of a schema that is not known yet."""
    filled(path, [observed(1)])
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA user_version = 99")


def corrupt(path: Path) -> None:
    """Make a ledger with pages of zeros."""
    filled(path, [observed(number) for number in range(COUNT)])
    with closing(sqlite3.connect(path, isolation_level=None)) as made:
        made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = path.read_bytes()
    path.write_bytes(data[:8192] + bytes(len(data) - 8192))


def text(path: Path) -> None:
    """Write a text where the ledger should be."""
    path.write_text("this is no database, but it is longer than the header of one would be" * 3)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (foreign, ("is not a ledger: it has no table observations (tables: songs)",)),
        (older, ("has no column summary_en", "open the file once with the sidecar")),
        (newer, ("schema version 99 is newer than",)),
        (corrupt, ("the database is damaged", ".recover")),
        (text, ("is not an SQLite file",)),
    ],
)
def test_ledger_that_cannot_be_used_changes_neither_file(
    tmp_path: Path, store: Path, make: Callable[[Path], None], parts: tuple[str, ...]
) -> None:
    path = tmp_path / "other.sqlite"
    make(path)
    data, before = path.read_bytes(), contents(store)
    for words in (
        ("writeback", path, store, *COMMAND),
        ("decay", path, "--write"),
        ("used", path, "1", "--write"),
        ("lifecycle", path, "1", "--to", "stale", "--reason", "r", "--write"),
        ("drift", path),
    ):
        refused(run_here("memory", "ledger", *words), 2, str(path), *parts)
    assert path.read_bytes() == data
    assert contents(store) == before
