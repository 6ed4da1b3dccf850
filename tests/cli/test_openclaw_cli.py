"""OpenClaw sessions on the command line: validate a home, replay with archives, bad databases."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Lab = Callable[..., Any]
NOW, BEFORE = (f"6f0c7a5e-0000-4000-8000-00000000000{number}" for number in (1, 2))
DATABASE = "openclaw-agent.sqlite"


def _lines(identity: str, *texts: str) -> list[str]:
    header = {"type": "session", "version": 4, "id": identity, "timestamp": "2026-09-01T08:00:00Z"}
    lines = [header] + [
        {
            "type": "message",
            "id": f"{identity[-1]}{number}",
            "parentId": f"{identity[-1]}{number - 1}" if number else None,
            "timestamp": f"2026-09-01T08:{number:02}:00Z",
            "message": {"role": "user", "content": text},
        }
        for number, text in enumerate(texts)
    ]
    return [json.dumps(line) for line in lines]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one session in use and one that was reset."""
    agent = tmp_path / "home" / "agents" / "main"
    (agent / "agent").mkdir(parents=True)
    (agent / "sessions").mkdir()
    reset = agent / "sessions" / f"{BEFORE}.jsonl.reset.2026-09-01T09-00-00.000Z"
    reset.write_text("\n".join(_lines(BEFORE, "Which glaze did I buy?", "cut of")) + '\n{"type": "mess', "utf-8")
    connection = sqlite3.connect(agent / "agent" / DATABASE)
    with connection:
        connection.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, event_utf8_bytes)")
        for seq, line in enumerate(_lines(NOW, "Where is the kiln?", "How hot is it?")):
            connection.execute("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, NULL)", (NOW, seq, line))
        connection.execute("PRAGMA user_version = 23")
    connection.close()
    return tmp_path / "home"


def test_validate_lists_contents_of_a_home(lab: Lab, home: Path) -> None:
    done = lab("recordings", "validate", str(home), "--format", "openclaw", cwd=home)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^SQLite 23 +unknown +1 +2 +0 +2026-09-01 +2026-09-01$", done.stdout, re.MULTILINE)
    assert re.search(r"^session headers +1$", done.stdout, re.MULTILINE)
    assert "--format openclaw-archived" in done.stdout
    every = lab("recordings", "validate", str(home), "--format", "openclaw-archived", "--json", cwd=home)
    result = json.loads(every.stdout)
    assert [one["stored"] for one in result["inventory"]["stocks"]] == ["SQLite 23", "reset, JSON Lines 4"]
    assert [one["turns"] for one in result["conversations"]] == [2, 2]
    assert f"{BEFORE}: the last line, 4, is truncated and was skipped" in result["warnings"]


def test_resumed_run_reads_archives_again(lab: Lab, home: Path, tmp_path: Path) -> None:
    arguments = ("replay", str(home), "--format", "openclaw-archived", "--arm", "recency", "--embedder", "hashing")
    done = lab(*arguments, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    receipts = sorted((tmp_path / "run" / "receipts").iterdir())
    assert len(receipts) == 2
    held = [path.read_bytes() for path in receipts]
    receipts[0].unlink()
    again = lab(*arguments, "--out", "run", cwd=tmp_path)
    assert (again.returncode, [path.read_bytes() for path in receipts]) == (0, held)
    other = lab("replay", str(home), "--format", "openclaw", *arguments[4:], "--out", "run", cwd=tmp_path)
    assert other.returncode == 2


def test_run_of_grown_database_is_refused_as_different(lab: Lab, home: Path, tmp_path: Path) -> None:
    arguments = ("replay", str(home), "--format", "openclaw", "--arm", "recency", "--embedder", "hashing")
    assert lab(*arguments, "--out", "run", cwd=tmp_path).returncode == 0
    line = json.dumps({"type": "message", "id": "z", "message": {"role": "user", "content": "And now?"}})
    connection = sqlite3.connect(home / "agents" / "main" / "agent" / DATABASE)
    connection.execute("PRAGMA journal_mode = WAL")
    with connection:
        connection.execute("INSERT INTO transcript_events VALUES (?, 9, ?, NULL, NULL)", (NOW, line))
    # It stands in the log alone: the database's own file is as it was.
    done = lab(*arguments, "--out", "run", cwd=tmp_path)
    connection.close()
    assert done.returncode == 2
    assert "recordings" in done.stderr


@pytest.mark.process
def test_locked_database_exits_4_with_one_line(lab: Lab, home: Path) -> None:
    path = home / "agents" / "main" / "agent" / DATABASE
    begin = "import sqlite3, sys\ndb = sqlite3.connect(sys.argv[1])\n"
    code = begin + "db.execute('BEGIN EXCLUSIVE')\nprint(1, flush=True)\ninput()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "1\n"
        done = lab("recordings", "validate", str(home), "--format", "openclaw", cwd=home)
    finally:
        holder.kill()
        holder.communicate()
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        f"error: {path}: is locked by another process; try again when it has finished, or stop the gateway\n"
    )


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:5000]), "is truncated: 5000 of 8192 bytes"),
        (lambda path: path.write_text("{}"), "is not an SQLite database"),
        (lambda path: path.write_bytes(b""), "is empty, so it is not an SQLite database"),
    ],
)
def test_bad_database_exits_2_with_one_line(lab: Lab, home: Path, damage: Callable[[Path], object], said: str) -> None:
    path = home / "agents" / "main" / "agent" / DATABASE
    damage(path)
    done = lab("recordings", "validate", str(home), "--format", "openclaw", cwd=home)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"error: {path}: {said}")
