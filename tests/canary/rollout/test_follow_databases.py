"""Transcripts in databases: events once, also of a host that compacts, locks or replaces its database."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from lab.canary.rollout.follow import Databases
from lab.canary.rollout.live_figures import MARK, tool_recall

LIVE = Path(__file__).resolve().parents[4] / "shared" / "live" / "sessions-2026.9.6"
TABLE = """CREATE TABLE transcript_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, event_json TEXT,
    event_zstd BLOB, event_utf8_bytes INTEGER, PRIMARY KEY (session_id, seq))"""


def database(home: Path) -> Path:
    path = home / "agents" / "main" / "agent" / "openclaw-agent.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def add(path: Path, *numbers: int) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        if not connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            connection.execute(TABLE)
        rows = [("s", number, json.dumps({"mark": number})) for number in numbers]
        connection.executemany("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, NULL)", rows)


def numbers(databases: Databases) -> list[int]:
    return [json.loads(event)["mark"] for event in databases.more(b"mark")]


def test_every_event_once_and_from_the_end_of_what_exists(tmp_path: Path) -> None:
    path = database(tmp_path)
    add(path, 1, 2)
    databases = Databases([tmp_path])
    assert numbers(databases) == []
    add(path, 3)
    assert numbers(databases) == [3]
    assert numbers(databases) == []
    add(path, 4)
    # Killed, and started again.
    databases = Databases([tmp_path], json.loads(json.dumps(databases.as_json())))
    assert numbers(databases) == [4]
    assert numbers(Databases([tmp_path], databases.as_json())) == []


def test_later_database_is_read_whole_and_a_compacted_one_goes_on(tmp_path: Path) -> None:
    databases = Databases([tmp_path])
    assert numbers(databases) == []
    path = database(tmp_path)
    add(path, 1, 2, 3)
    assert numbers(databases) == [1, 2, 3]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM transcript_events WHERE seq < 3")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")
    numbers(databases)
    add(path, 4)
    assert numbers(databases) == [4]


def test_locked_and_damaged_databases_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.base.sqlite.BUSY_SECONDS", 0.05)
    path = database(tmp_path)
    path.write_bytes(b"no database")
    databases = Databases([tmp_path])
    assert numbers(databases) == []
    path.unlink()
    add(path, 1)
    assert numbers(databases) == []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("INSERT INTO transcript_events VALUES ('s', 2, '{\"mark\": 2}', NULL, NULL)")
        assert numbers(databases) == []
        connection.execute("COMMIT")
    assert numbers(databases) == [2]


@pytest.mark.skipif(not LIVE.is_dir(), reason="the live samples are not here")
def test_live_database(tmp_path: Path) -> None:
    databases = Databases([tmp_path])
    shutil.copytree(LIVE / "agents", tmp_path / "agents")
    calls = [call for event in databases.more(MARK) if (call := tool_recall(event))]
    assert sorted(call.milliseconds or 0 for call in calls) == [43.0, 48.0, 126.0]
