"""Bounds of what recalls took: by the turns that a host recorded, in its database or in files."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.canary.audit.waits import AFTER, BEFORE, LEAST, Receipt, Span, bounded, recalls_of, spans, waits
from tests.commands import run_here

START = 1_772_355_600_000
Turn = tuple[int, int, int, bool]


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def events(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return what a host records of turns: each has an event before its recall, and another after it."""
    found = []
    for number, (start, _, end, _) in enumerate(turns):
        for kind, ms in (("session.started", start - 3), (BEFORE, start), (AFTER, end), ("prompt.submitted", end + 9)):
            about = {
                "sessionId": "s",
                "sessionKey": "agent:main:s",
                "runId": f"r{number}",
                "data": {"prompt": "x" * 999},
            }
            found.append({"traceSchema": "openclaw-trajectory", "type": kind, "ts": iso(ms)} | about)
    return found


def in_database(home: Path, turns: Sequence[Turn]) -> None:
    folder = home / "agents" / "main" / "agent"
    folder.mkdir(parents=True)
    with closing(sqlite3.connect(folder / "openclaw-agent.sqlite")) as database, database:
        database.execute(
            "CREATE TABLE trajectory_runtime_events (session_id TEXT NOT NULL, seq INTEGER NOT NULL, run_id TEXT, "
            "event_json TEXT NOT NULL, created_at INTEGER NOT NULL, PRIMARY KEY (session_id, seq)) STRICT"
        )
        database.execute("PRAGMA user_version = 23")
        database.execute("CREATE TABLE transcript_events (session_id, seq, event_json, event_zstd, event_utf8_bytes)")
        said = {"role": "user", "content": [{"type": "text", "text": "Where is the kiln?"}], "timestamp": START}
        stored = [{"type": "session", "version": 4, "id": "s", "timestamp": iso(START)}]
        stored += [{"type": "message", "id": "m", "parentId": None, "timestamp": iso(START), "message": said}]
        for seq, event in enumerate(stored):
            row = ("s", seq, json.dumps(event))
            database.execute("INSERT INTO transcript_events VALUES (?, ?, ?, NULL, NULL)", row)
        for seq, event in enumerate(events(turns)):
            ms = round(1000 * datetime.fromisoformat(event["ts"]).timestamp())
            text = json.dumps(event, separators=(",", ":"))
            database.execute(
                "INSERT INTO trajectory_runtime_events VALUES (?, ?, ?, ?, ?)", ("s", seq, event["runId"], text, ms)
            )


def in_files(home: Path, turns: Sequence[Turn]) -> None:
    folder = home / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    (folder / "s.jsonl").write_text('{"type":"session","version":4,"id":"s"}\n', "utf-8")
    lines = [json.dumps(event, separators=(",", ":")) for event in events(turns)]
    # The host is writing the last line.
    (folder / "s.trajectory.jsonl").write_text("\n".join([*lines, f'{{"type":"{AFTER}","ts":']), "utf-8")


@pytest.fixture
def turns() -> list[Turn]:
    """120 turns in a row: the host needs 5 to 9 ms, the recall 40 to 59 ms; every fifth one is skipped."""
    found, at = [], START + 1
    for number in range(120):
        skipped = number % 5 == 4
        receipt = at + 5 + number % 5 + (0 if skipped else 40 + number % 20)
        found.append((at, receipt, receipt + 30, skipped))
        at += 1_001
    return found


@pytest.fixture
def log(tmp_path: Path, turns: list[Turn], receipt: Callable[..., dict[str, Any]], skip: dict[str, Any]) -> Path:
    file = tmp_path / "gateway.log"
    answered = receipt(["m1", "n1"])
    lines = [
        json.dumps(
            {"1": f"openclaw-mem-engine:autoRecall.receipt {json.dumps(skip if skipped else answered)}"}
            | {"time": iso(ms)}
        )
        for _, ms, _, skipped in turns
    ]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    return file


@pytest.mark.parametrize("record", [in_database, in_files])
def test_waits_bounds_recalls_by_what_the_host_recorded(
    tmp_path: Path, turns: list[Turn], log: Path, record: Callable[..., None]
) -> None:
    record(tmp_path / "home", turns)
    found = waits([str(log)], tmp_path / "home")
    assert (found["recalls"], found["without"], found["skipped"]) == (96, 0, 24)
    # A skipped recall is as long as the host's own part, 9 ms, and 1 ms for rounding.
    assert found["host_ms"] == 10
    true = sorted(40 + number % 20 for number in range(120) if number % 5 != 4)
    low, high = found["p95"]["low"], found["p95"]["high"]
    assert low["low"] <= low["value"] <= true[int(0.95 * 96)] <= high["value"] <= high["high"] <= 59 + 9 + 1
    assert found["p50"]["low"]["value"] >= 40 - 10
    assert found["p99"]["high"] is None


def test_waits_leaves_out_what_was_before(tmp_path: Path, turns: list[Turn], log: Path) -> None:
    in_database(tmp_path / "home", turns)
    since = datetime.fromtimestamp(turns[60][0] / 1000, UTC)
    found = waits([str(log)], tmp_path / "home", since)
    assert (found["recalls"], found["skipped"], found["host_ms"]) == (48, 12, None)


def test_recalls_without_enough_skipped_ones_have_no_lower_bound() -> None:
    turns = [Span(100 * at, 100 * at + 60) for at in range(100)]
    receipts = [Receipt(100 * at + 50, at < LEAST - 1) for at in range(100)]
    found = bounded(receipts, turns)
    assert (found["skipped"], found["host_ms"], found["p50"]["low"]) == (LEAST - 1, None, None)
    assert found["p50"]["high"]["value"] == 51


def test_recalls_outside_recorded_turns_are_counted() -> None:
    found = bounded([Receipt(50, False), Receipt(61, False), Receipt(250, True)], [Span(0, 60)])
    assert (found["recalls"], found["without"], found["skipped"]) == (1, 1, 0)


def test_recalls_of_sessions_that_overlap_have_the_bounds_of_all() -> None:
    (recall,), _ = recalls_of([Receipt(100, False)], [Span(20, 200), Span(90, 110), Span(0, 99)])
    # Nothing is known of the host's own part.
    assert (recall.low, recall.high) == (0, 100 - 20 + 1)
    skipped = [Span(1_000 * at, 1_000 * at + 50) for at in range(1, 20)]
    receipts = [Receipt(100, False), *(Receipt(turn.start + 4, True) for turn in skipped)]
    (recall, *_), own = recalls_of(receipts, [Span(20, 200), Span(90, 110), Span(0, 99), *skipped])
    assert (own, recall.low, recall.high) == (5, 100 - 90 - 1 - 5, 100 - 20 + 1)
    assert recalls_of([Receipt(100, True)], [Span(20, 200), Span(90, 110)]) == ([], None)


def test_lower_bounds_hold_in_the_stated_share() -> None:
    """The host's own part is of one distribution, heavy-tailed, before skipped and other recalls."""
    draw, within, total = Random(7), 0, 0
    for _ in range(40):
        spent = [(draw.paretovariate(1.5) * 5, draw.expovariate(1 / 80)) for _ in range(200)]
        turns = [Span(10_000 * at, 10_000 * at + 9_999) for at in range(200)]
        receipts = [
            Receipt(round(10_000 * at + own + (0 if at % 5 == 0 else recall)), at % 5 == 0)
            for at, (own, recall) in enumerate(spent)
        ]
        recalls, _ = recalls_of(receipts, turns)
        for recall in recalls:
            if not recall.skipped:
                true = spent[recall.ms // 10_000][1]
                assert true <= recall.high
                within += recall.low <= true
                total += 1
    assert within / total >= 0.95


def test_spans_of_a_home_without_trajectories_are_none(tmp_path: Path) -> None:
    in_database(tmp_path / "home", [])
    with closing(sqlite3.connect(next(tmp_path.rglob("*.sqlite")))) as database, database:
        database.execute("DROP TABLE trajectory_runtime_events")
    assert spans(tmp_path / "home") == []


def test_audit_with_a_home_says_the_bounds(tmp_path: Path, turns: list[Turn], log: Path) -> None:
    in_database(tmp_path / "home", turns)
    before = {path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()}
    done = run_here("canary", "audit", log, "--home", tmp_path / "home", "--out", tmp_path / "audit.json")
    assert done.returncode == 0, done.stderr
    assert "24 skipped recalls show 10 ms of the host's own" in " ".join(done.stdout.split())
    assert json.loads((tmp_path / "audit.json").read_text("utf-8"))["latency"]["recalls"] == 96
    assert {path: path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file()} == before


def test_audit_of_stdin_with_a_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="--home: the log is read twice"):
        waits(["-"], tmp_path)
