"""Retention: what an expiry removes for good (EP-6)."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest

from lab.memory.episodes.ingest import Ingested, expire, ingest, insert, recording_events
from lab.memory.episodes.search import embed
from lab.recordings.model import Recording, Turn
from tests.memory.episodes.ledgers import DAY_MS, NOW, NOW_MS, filled, found, hashing, line, stored, write_spool


def test_expire_keeps_each_type_its_days(tmp_path: Path) -> None:
    ages = {"conversation.user": 60, "conversation.assistant": 90, "tool.call": 30, "tool.result": 30, "ops.alert": 90}
    lines = [
        line(2 * number + late, type=kind, ts_ms=NOW_MS - days * DAY_MS - late)
        for number, (kind, days) in enumerate(ages.items())
        for late in (0, 1)
    ]
    lines += [line(90 + number, type=kind, ts_ms=1) for number, kind in enumerate(("ops.decision", "ops.observation"))]
    path = filled(tmp_path / "l.sqlite", lines)
    embed(path, hashing(), now=NOW)
    assert expire(path, now=NOW, write=False)["removed"] == 5
    receipt = expire(path, now=NOW)
    assert {kind: count for kind, count in receipt["by_type"].items() if count} == dict.fromkeys(ages, 1)
    assert [event.event_id for event in stored(path)] == ["e0", "e2", "e4", "e6", "e8", "e90", "e91"]
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM episodic_event_embeddings").fetchone() == (7,)
    assert {hit.event.event_id for hit in found(path, "event").hits} == {event.event_id for event in stored(path)}


def test_expired_event_is_not_ingested_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1), line(2, ts_ms=1)])
    assert expire(path, now=NOW)["removed"] == 1
    done = ingest(path, path.with_suffix(".jsonl"), "spool", now=NOW)
    assert (done.inserted.total(), done.already) == (0, 2)
    assert ingest(path, path.with_suffix(".jsonl"), "spool", now=NOW, write=False).inserted.total() == 0


@pytest.mark.parametrize("spool_first", [True, False])
def test_expired_event_is_known_to_the_other_source(tmp_path: Path, spool_first: bool) -> None:
    turns = (Turn("c/s/0", 0, "s", "user", "the choir meets", 1000, speaker="user"),)
    path, events = tmp_path / "l.sqlite", list(recording_events(Recording("c", turns, ()), "lab"))
    same = line(1, "the choir meets", session_id="c/s", ts_ms=1000)
    spool = write_spool(tmp_path / "s.jsonl", [same, {**same, "event_id": "e2", "session_id": "other"}])

    def from_spool(write: bool = True) -> int:
        return ingest(path, spool, "spool", now=NOW, write=write).inserted.total()

    def from_recording(write: bool = True) -> int:
        return insert(path, events, Ingested(write), now=NOW).inserted.total()

    runs = (from_spool, from_recording) if spool_first else (from_recording, from_spool)
    assert sum(run() for run in runs) == 2
    assert expire(path, now=NOW)["removed"] == 2
    assert [run(write) for run in runs for write in (False, True)] == [0, 0, 0, 0]
    with sqlite3.connect(path) as connection:
        assert "choir" not in str(connection.execute("SELECT * FROM lab_expired_episodes").fetchall())


def test_expired_words_are_not_left_in_the_file(tmp_path: Path) -> None:
    lines = [line(number, f"zebraword{number} crossing", ts_ms=1) for number in range(300)]
    path = filled(tmp_path / "l.sqlite", [*lines, line(900, "the choir meets")])
    embed(path, hashing(), now=NOW)
    assert expire(path, now=NOW)["removed"] == 300
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert not any(word in path.read_bytes() for word in (b"zebraword", b"crossing"))
    assert [hit.event.event_id for hit in found(path, "choir").hits] == ["e900"]


def test_expire_takes_other_days_and_a_scope(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, ts_ms=1), line(2, ts_ms=1, scope="garden")])
    assert expire(path, days={"conversation.user": None}, now=NOW)["removed"] == 0
    assert expire(path, days={"conversation.user": 1}, scope="Garden", now=NOW)["removed"] == 1
    assert expire(path, now=NOW + timedelta(days=1))["removed"] == 1
