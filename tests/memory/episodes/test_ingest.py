"""Ingest: events of every reader and of spools, each once (EP-2, EP-5, EP-7)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.memory.episodes.events import Event, open_episodes
from lab.memory.episodes.ingest import _KNOWN, _looked_up, expire, ingest, is_spool, recording_events
from lab.memory.episodes.search import embed
from lab.memory.ledger.ingest import ingest as ingest_observations
from lab.recordings.model import Recording, Turn
from lab.recordings.readers import read_library
from tests.conftest import ROOT
from tests.memory.episodes.ledgers import DAY_MS, NOW, NOW_MS, filled, found, hashing, line, stored, write_spool
from tests.memory.ledger.ledgers import rows, write_log
from tests.recordings.conftest import SAMPLES


def turn(seq: int, role: str, text: str, **fields: Any) -> Turn:
    return Turn(f"c/s/{seq}", seq, "s", role, text, 1000 * seq, speaker=role, **fields)


def test_recording_gives_an_event_for_each_role() -> None:
    turns = (
        turn(0, "user", "a"),
        turn(1, "assistant", "b"),
        turn(2, "tool", "c"),
        turn(3, "system", "d"),
        turn(4, "ben", "e"),
    )
    made = list(recording_events(Recording("c", turns, ()), "lab"))
    assert [event.type for event in made] == [
        "conversation.user",
        "conversation.assistant",
        "tool.result",
        "ops.observation",
        "conversation.user",
    ]
    assert {event.session_id for event in made} == {"c/s"}
    assert len({event.event_id for event in made}) == 5


@pytest.mark.parametrize(
    ("conversation", "session", "expected"),
    [("1", "1", "1"), ("1", "1#2", "1#2"), ("1", "10", "1/10"), ("10", "10", "10"), ("10", "1", "10/1")],
)
def test_sessions_of_two_conversations_stay_apart(conversation: str, session: str, expected: str) -> None:
    spoken = replace(turn(0, "user", "a"), session=session)
    (event,) = recording_events(Recording(conversation, (spoken,), ()), "lab")
    assert event.session_id == expected


def test_turn_is_searched_by_its_index_text() -> None:
    made = turn(0, "user", "yes", said='Ben said, "yes"', index_text="8 May\n8 May Ben agreed")
    (event,) = recording_events(Recording("c", (made,), ()), "lab")
    assert (event.summary, event.search_text) == ('Ben said, "yes"', "8 May 8 May Ben agreed")
    assert json.loads(event.refs_json or "") == {"format": "lab", "key": "c/s/0", "source": "recording"}


def test_blank_turn_gives_no_event() -> None:
    assert list(recording_events(Recording("c", (turn(0, "user", " "),), ()), "lab")) == []


def test_tool_uses_are_events_after_their_turn(shared: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ingest(path, shared("live", "sessions-2026.9.6"), "openclaw", now=NOW)
    events = stored(path)
    calls, results = ([event for event in events if event.type == f"tool.{kind}"] for kind in ("call", "result"))
    assert len(calls) == len(results) == 9
    assert all(
        call.summary.split(":")[0] == result.summary.split(":")[0] for call, result in zip(calls, results, strict=True)
    )
    assert {json.loads(call.payload_json or "")["tool"] for call in calls} >= {"memory_store", "memory_recall"}
    first = events.index(calls[0])
    assert events[first - 1].session_id == calls[0].session_id


@pytest.mark.parametrize("form", sorted(SAMPLES))
def test_every_reader_is_ingested_once(form: str, tmp_path: Path) -> None:
    folder, path = tmp_path / "sample", tmp_path / "l.sqlite"
    folder.mkdir()
    SAMPLES[form](folder)
    turns = [turn for recording in read_library(folder, form).recordings for turn in recording.turns]
    done = ingest(path, folder, form, now=NOW)
    assert done.inserted.total() == len(turns) + sum(len(turn.tool_uses) for turn in turns)
    before = stored(path)
    assert ingest(path, folder, form, now=NOW).inserted.total() == 0
    assert stored(path) == before


def test_ingest_again_changes_nothing(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1), line(2), line(1, "another text")])
    before = stored(path)
    assert [event.event_id for event in before] == ["e1", "e2"]
    done = ingest(path, write_spool(tmp_path / "m.jsonl", [line(2), line(3)]), "spool", now=NOW)
    assert (done.receipt()["inserted"], done.receipt()["ingested_before"]) == (1, 1)
    assert stored(path)[:2] == before


@pytest.mark.parametrize(
    ("change", "count"),
    [({}, 1), ({"payload": {"text": "other"}}, 2), ({"session_id": "s2"}, 2), ({"type": "tool.call"}, 2)],
)
@pytest.mark.parametrize("readers", [0, 1])
def test_event_of_two_sources_is_known_by_its_content(
    tmp_path: Path, change: dict[str, Any], count: int, readers: int
) -> None:
    lines = [line(1, "choir", ts_ms=NOW_MS), line(2, "choir", ts_ms=NOW_MS, **change)]
    lines[readers]["refs"] = {"source": "recording", "format": "lab", "key": "c/s/1"}
    assert len(stored(filled(tmp_path / "l.sqlite", lines))) == count


def test_transaction_that_was_broken_off_leaves_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1)])

    def breaks(event: Event, *_: object) -> None:
        if event.event_id == "e3":
            raise KeyboardInterrupt

    monkeypatch.setattr("lab.memory.episodes.ingest._tally", breaks)
    spool = write_spool(tmp_path / "m.jsonl", [line(2), line(3), line(4)])
    with pytest.raises(KeyboardInterrupt):
        ingest(path, spool, "spool", now=NOW)
    assert [event.event_id for event in stored(path)] == ["e1"]


def test_ingest_without_write_only_counts(tmp_path: Path) -> None:
    spool = write_spool(tmp_path / "s.jsonl", [line(1), line(2)])
    path = tmp_path / "l.sqlite"
    assert ingest(path, spool, "spool", now=NOW, write=False).receipt()["inserted"] == 2
    assert not path.exists()
    filled(path, [line(1)])
    assert ingest(path, spool, "spool", now=NOW, write=False).receipt()["inserted"] == 1
    assert len(stored(path)) == 1


def test_turn_that_the_sidecar_extracted_is_not_repeated(shared: Callable[..., Path], tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ingest(path, shared("live", "sidecar", "episodes-spool-sample.jsonl"), "spool", now=NOW)
    done = ingest(path, shared("live", "sessions-2026.6.11"), "openclaw", now=NOW)
    assert done.already == 2
    texts = [event.payload_json for event in stored(path) if "choir meets on Thursday" in event.search_text]
    assert sum(text is not None and text.startswith('{"text"') for text in texts) == 1


def test_malformed_lines_are_counted(tmp_path: Path) -> None:
    spool = write_spool(
        tmp_path / "s.jsonl",
        [
            line(1),
            line(2, type="weird"),
            line(3, summary=" "),
            line(4, session_id=None),
            line(5, ts_ms=-1),
            line(6, ts_ms=True),
            line(7, ts_ms=str(NOW_MS)),
            line(8, ts_ms=None, event_id=None),
            # The first millisecond of the year 10000.
            line(9, ts_ms=253_402_300_800_000),
            line(10, ts_ms=253_402_300_799_999),
        ],
    )
    with spool.open("a") as file:
        file.write('nope\n\n[1]\n{"cut')
    done = ingest(tmp_path / "l.sqlite", spool, "spool", now=NOW)
    assert done.malformed == {
        "unknown type": 1,
        "no summary": 1,
        "no session_id": 1,
        "a ts_ms that is no time": 3,
        "not JSON": 1,
        "not a JSON object": 1,
    }
    times = [event.ts_ms for event in stored(tmp_path / "l.sqlite")]
    assert (done.without_time, times[1:]) == (1, [NOW_MS, NOW_MS, 253_402_300_799_999])


def test_deeply_nested_payload_is_malformed(tmp_path: Path) -> None:
    nested = '{"a":' * 700 + "1" + "}" * 700
    deep = json.dumps(line(1)).replace('{"text": "event 1"}', nested)
    spool = tmp_path / "s.jsonl"
    spool.write_text(f"{json.dumps(line(2))}\n{deep}\n")
    done = ingest(tmp_path / "l.sqlite", spool, "spool", now=NOW)
    assert done.inserted.total() + done.malformed.total() == 2


def test_id_that_sqlite_cannot_hold_is_stored_once(tmp_path: Path) -> None:
    spool = tmp_path / "s.jsonl"
    spool.write_text(json.dumps(line(1, event_id="a\ud800")) + "\n")
    path = tmp_path / "l.sqlite"
    assert [ingest(path, spool, "spool", now=NOW).inserted.total() for _ in range(2)] == [1, 0]
    assert [event.event_id for event in stored(path)] == ["a\ufffd"]


def test_file_without_an_event_is_no_spool(tmp_path: Path) -> None:
    assert not is_spool(tmp_path / "none")
    assert is_spool(write_spool(tmp_path / "s.jsonl", [line(1)]))
    with pytest.raises(UnusableInput, match="has no line that is an event"):
        ingest(tmp_path / "l.sqlite", write_spool(tmp_path / "t.jsonl", [{"a": 1}]), "spool", now=NOW)
    assert not (tmp_path / "l.sqlite").exists()


def test_known_event_is_found_in_equal_steps_among_many_of_one_time(tmp_path: Path) -> None:
    """Events of a spool without times all have the time of the ingest."""

    def steps(count: int) -> int:
        done = 0

        def step() -> None:
            nonlocal done
            done += 1

        path = filled(tmp_path / f"{count}.sqlite", (line(number, ts_ms=None) for number in range(count)))
        event = stored(path)[-1]._replace(event_id="another", payload_json='{"text":"another"}')
        with open_episodes(path) as connection:
            connection.set_progress_handler(step, 1)
            assert connection.execute(_KNOWN, _looked_up(event)).fetchone() is None
            connection.set_progress_handler(None, 1)
        return done

    assert steps(400) == steps(40)


def test_device_is_no_spool(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="/dev/null: is a device or a socket, not a file"):
        ingest(tmp_path / "l.sqlite", Path("/dev/null"), "spool", now=NOW)


def test_episodes_never_reach_observations(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ingest_observations(path, write_log(tmp_path / "o.jsonl", [{"summary": "clay pots"}]), now=NOW)
    before = rows(path)
    filled(path, [line(1, "the choir meets"), line(2, ts_ms=NOW_MS - 100 * DAY_MS)])
    embed(path, hashing(), now=NOW)
    found(path, "choir", mode="hybrid", vectors=hashing())
    assert expire(path, now=NOW)["removed"] == 1
    assert rows(path) == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO observations (ts, summary) VALUES ('t', 's')",
        "UPDATE observations SET summary = 's'",
        "DELETE FROM observations",
        "DROP TABLE observations",
        "INSERT INTO observations_fts (rowid, summary) VALUES (9, 's')",
        "ALTER TABLE observations RENAME TO gone",
        "ALTER TABLE observations DROP COLUMN summary_en",
        "ALTER TABLE episodic_events RENAME TO observed",
        "CREATE TRIGGER t AFTER INSERT ON episodic_events BEGIN DELETE FROM observations; END",
        "CREATE TEMP TRIGGER t AFTER INSERT ON episodic_events BEGIN SELECT 1; END",
        "CREATE TRIGGER episodic_t AFTER INSERT ON observations BEGIN SELECT 1; END",
        "CREATE INDEX i ON observations(kind)",
        "CREATE VIEW v AS SELECT * FROM observations",
        "CREATE TABLE truths (id)",
        "DROP INDEX idx_observations_tool_ts",
        "DROP TABLE observations_fts",
        "ATTACH ':memory:' AS other",
        "DETACH main",
        "PRAGMA writable_schema = 1",
        "PRAGMA user_version = 9",
    ],
)
def test_connection_refuses_to_change_observations(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "l.sqlite"
    ingest_observations(path, write_log(tmp_path / "o.jsonl", [{"summary": "clay pots"}]), now=NOW)
    before = rows(path)
    with (
        pytest.raises(Exception, match="more than the tables of episodes"),
        open_episodes(path, write=True, new=True) as connection,
    ):
        connection.execute(statement)
    assert rows(path) == before


def test_trigger_that_changes_another_table_is_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1)])
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE log (n); "
            "CREATE TRIGGER t AFTER INSERT ON episodic_events BEGIN INSERT INTO log VALUES (1); END"
        )
    with pytest.raises(UnusableInput, match="a trigger or view of the file changes more than the tables of episodes"):
        filled(path, [line(2)])


def test_lost_index_is_made_again(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "the choir meets")])
    with sqlite3.connect(path) as connection:
        connection.executescript("DROP TABLE episodic_events_fts; DROP TABLE lab_episodes_fts")
    assert found(path, "choir").lexical_status == "missing_index"
    filled(path, [line(2)])
    assert [hit.event.event_id for hit in found(path, "choir").hits] == ["e1"]


def test_damaged_index_is_named_with_the_remedy(tmp_path: Path) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1, "the choir meets")])
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE episodic_events_fts_data SET block = x'00ff00ff' WHERE id > 1")
    with pytest.raises(UnusableInput, match=f"is damaged; remove both with sqlite3 {path} '") as raised:
        filled(path, [line(2)])
    with sqlite3.connect(path) as connection:
        connection.executescript(str(raised.value).split("'")[1])
    filled(path, [line(2)])
    assert [hit.event.event_id for hit in found(path, "choir", upstream=True).hits] == ["e1"]


@pytest.mark.parametrize("write", [False, True])
def test_damaged_schema_that_is_no_utf8_is_named(tmp_path: Path, write: bool) -> None:
    path = filled(tmp_path / "l.sqlite", [line(1)])
    # SQLite's message quotes the schema.
    path.write_bytes(path.read_bytes().replace(b"ON episodic_events(event_id)", b"ON episodic_events \xffvent_id)"))
    with pytest.raises(UnusableInput, match="the database is damaged; restore a copy"):
        expire(path, now=NOW, write=write)


def test_shipped_set_is_ingested_completely(tmp_path: Path) -> None:
    done = ingest(tmp_path / "l.sqlite", ROOT / "datasets" / "operators", "lab", now=NOW, write=False)
    assert done.inserted.total() > 3000
