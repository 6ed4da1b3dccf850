"""Tests of finding sessions: homes, agents and folders, duplicates, and reset or deleted sessions."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import UnusableInput
from lab.recordings.convert import convert
from lab.recordings.readers import Library, read_library
from lab.recordings.validate import validate

MakeDatabase = Callable[..., Path]
FIRST, SECOND = (f"3b0d5a52-0000-4000-8000-00000000000{number}" for number in (1, 2))
DATABASE = "openclaw-agent.sqlite"


def said(library: Library) -> dict[str, list[str]]:
    return {recording.conversation: [turn.text for turn in recording.turns] for recording in library.recordings}


def passed(library: Library) -> dict[str, int]:
    assert library.inventory is not None
    return {skipped.what: skipped.count for skipped in library.inventory.passed}


@pytest.fixture
def talk(new_log: Any) -> Callable[..., Any]:
    def make(*texts: str, identity: str = FIRST, version: int = 3) -> Any:
        log = new_log(identity, version)
        for text in texts:
            log.says("user", text)
        return log

    return make


def write(path: Path, log: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log.text(), "utf-8")
    return path


def pack(path: Path, log: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(pa.compress(log.text().encode(), codec="zstd", asbytes=True))
    return path


@pytest.mark.parametrize("where", ["", "agents", "agents/main", "agents/main/agent", f"agents/main/agent/{DATABASE}"])
def test_find_session_of_a_home_from_every_parent_folder(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, where: str
) -> None:
    make_database(tmp_path / "agents/main/agent" / DATABASE, talk("one"))
    (tmp_path / "openclaw.json").write_text("{}")
    library = read_library(tmp_path / where, "openclaw")
    assert (said(library), list(library.names)) == ({FIRST: ["one"]}, [DATABASE])


def test_sessions_with_equal_ids_of_two_agents_stay_separate(
    tmp_path: Path, talk: Any, make_database: MakeDatabase
) -> None:
    make_database(tmp_path / "agents/main/agent" / DATABASE, talk("of main"), talk("alone", identity=SECOND))
    make_database(tmp_path / "agents/work/agent" / DATABASE, talk("of work"))
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {f"{FIRST}@main": ["of main"], f"{FIRST}@work": ["of work"], SECOND: ["alone"]}
    assert library.recordings[0].turns[0].key == f"{FIRST}@main/{FIRST}/0001-0001"
    assert sorted(library.names) == [f"main/agent/{DATABASE}", f"work/agent/{DATABASE}"]
    assert library.golden.notes[0] == f"{FIRST}: 2 agents have a session with this id, so the agent's name is appended"


def test_file_left_by_a_migration_is_not_counted_twice(tmp_path: Path, talk: Any, make_database: MakeDatabase) -> None:
    old, new = talk("one"), talk("one", "two", version=4)
    make_database(tmp_path / "agents/main/agent" / DATABASE, new)
    write(tmp_path / f"agents/main/sessions/{FIRST}.jsonl", old)
    library = read_library(tmp_path, "openclaw")
    assert (said(library), list(library.names)) == ({FIRST: ["one", "two"]}, [DATABASE])
    assert passed(library)["copies of sessions"] == 1
    assert library.golden.notes[0] == f"{FIRST}: duplicate in {FIRST}.jsonl, skipped"
    write(tmp_path / f"agents/main/sessions/{FIRST}.jsonl", talk("one", "two", "three"))
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {FIRST: ["one", "two", "three"]}


def test_reset_and_deleted_sessions_are_noted_and_readable(tmp_path: Path, talk: Any) -> None:
    write(tmp_path / f"{FIRST}.jsonl", talk("now"))
    write(tmp_path / f"{SECOND}.jsonl.reset.2026-09-01T09-00-00.000Z", talk("before", identity=SECOND))
    third = SECOND.replace("2", "3", 1)
    pack(tmp_path / f"{third}.jsonl.deleted.2026-09-01T10-00-00.000Z.0a.zst", talk("gone", identity=third))
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {FIRST: ["now"]}
    assert passed(library)["sessions that were reset; --format openclaw-archived reads them"] == 1
    assert passed(library)["sessions that were deleted; --format openclaw-archived reads them"] == 1
    assert "skipped 2 sessions that were reset or deleted (" in library.golden.notes[0]
    every = read_library(tmp_path, "openclaw-archived")
    assert said(every) == {FIRST: ["now"], SECOND: ["before"], third: ["gone"]}
    assert every.inventory is not None
    stored = sorted(stock.stored for stock in every.inventory.stocks)
    assert stored == ["JSON Lines 3", "deleted, JSON Lines 3", "reset, JSON Lines 3"]


def test_archive_given_as_path_is_read(tmp_path: Path, talk: Any) -> None:
    path = write(tmp_path / f"{FIRST}.jsonl.reset.2026-09-01T09-00-00.000Z", talk("before"))
    assert said(read_library(path, "openclaw")) == {FIRST: ["before"]}
    with pytest.raises(UnusableInput, match=r"only sessions that were reset or deleted \(1\); --format openclaw-arch"):
        read_library(tmp_path, "openclaw")


def test_archive_with_the_same_entries_is_a_copy(tmp_path: Path, talk: Any, new_log: Any) -> None:
    write(tmp_path / f"{FIRST}.jsonl", talk("one", "two"))
    write(tmp_path / f"{FIRST}.jsonl.reset.1", talk("one"))
    other = new_log(FIRST)
    other.lines.append({"type": "message", "id": "z1", "parentId": None, "message": {"role": "user", "content": "old"}})
    write(tmp_path / f"{FIRST}.jsonl.reset.2", other)
    library = read_library(tmp_path, "openclaw-archived")
    assert said(library) == {FIRST: ["one", "two"], f"{FIRST}@reset.2": ["old"]}
    assert passed(library)["copies of sessions"] == 1


def test_archive_without_ids_is_identified_by_its_lines(tmp_path: Path, talk: Any) -> None:
    def without_ids(*texts: str) -> Any:
        log = talk(*texts, version=1)
        for line in log.lines[1:]:
            del line["id"], line["parentId"]
        return log

    write(tmp_path / f"{FIRST}.jsonl", without_ids("one", "two"))
    write(tmp_path / f"{FIRST}.jsonl.reset.1", without_ids("one"))
    write(tmp_path / f"{FIRST}.jsonl.reset.2", without_ids("old", "older"))
    library = read_library(tmp_path, "openclaw-archived")
    assert said(library) == {FIRST: ["one", "two"], f"{FIRST}@reset.2": ["old", "older"]}
    assert passed(library)["copies of sessions"] == 1


@pytest.mark.parametrize("encoding", ["zstd", "identity"])
def test_archive_in_a_database_is_read_once_on_request(
    tmp_path: Path, talk: Any, make_database: MakeDatabase, encoding: str
) -> None:
    path = make_database(tmp_path / "agents/main/agent" / DATABASE, talk("now"))
    gone = talk("gone", identity=SECOND)
    name = f"{SECOND}.jsonl.deleted.1.0a" + (".zst" if encoding == "zstd" else "")
    data = gone.text().encode()
    blob = pa.compress(data, codec="zstd", asbytes=True) if encoding == "zstd" else data
    row = (SECOND, "g", "agent:main:x", "deleted", encoding, blob, hashlib.sha256(blob).hexdigest(), name)
    connection = sqlite3.connect(path)
    with connection:
        columns = f"({', '.join('?' * 8)}, 0, NULL, 0, NULL, NULL)"
        connection.execute(f"INSERT INTO session_transcript_archives VALUES {columns}", row)
    connection.close()
    (tmp_path / "agents/main/sessions").mkdir()
    (tmp_path / "agents/main/sessions" / name).write_bytes(blob)
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {FIRST: ["now"]}
    assert passed(library)["sessions that were deleted; --format openclaw-archived reads them"] == 1
    every = read_library(tmp_path, "openclaw-archived")
    assert said(every) == {FIRST: ["now"], SECOND: ["gone"]}
    assert passed(every)["archived transcripts that the database contains as well"] == 1


def test_spoilt_file_of_a_folder_is_skipped_and_noted(tmp_path: Path, talk: Any) -> None:
    write(tmp_path / "a.jsonl", talk("one"))
    (tmp_path / "b.jsonl").write_text("{}\n")
    write(tmp_path / "c.jsonl", talk(identity=SECOND))
    (tmp_path / "d.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd cut")
    for name in ("a.trajectory.jsonl", "a.jsonl.bak", "a.checkpoint.1.jsonl", "x.lock", ".hidden"):
        (tmp_path / name).write_text("")
    (tmp_path / "sessions.json").write_text("{")
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {FIRST: ["one"]}
    assert passed(library) == {
        "backups of transcripts": 1,
        "checkpoints of transcripts": 1,
        "hidden files": 1,
        "other files among the sessions": 1,
        "session headers": 1,
        "trajectories of sessions, which repeat their transcripts": 1,
        "transcripts that are unreadable or have no turn": 3,
    }
    assert [note.split(": ")[0] for note in library.golden.notes] == [
        str(tmp_path / "sessions.json"),
        *["skipped"] * 3,
    ]


def test_compressed_transcript_has_a_size_limit(tmp_path: Path, talk: Any) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(pa.compress(bytes((256 << 20) + 1), codec="zstd", asbytes=True))
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "openclaw")
    assert str(caught.value) == f"{path}: decompresses to more than 256 MiB"


def test_index_gives_the_origin_of_file_sessions(tmp_path: Path, talk: Any) -> None:
    write(tmp_path / f"{FIRST}.jsonl", talk("one"))
    (tmp_path / "sessions.json").write_text(json.dumps({"agent:main:subagent:7": {"sessionId": FIRST}}))
    library = read_library(tmp_path, "openclaw")
    assert library.inventory is not None
    assert [stock.origin for stock in library.inventory.stocks] == ["subagent"]


def test_folder_without_sessions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path, "openclaw")
    assert str(caught.value) == (
        f"{tmp_path}: has no *.jsonl or openclaw-agent.sqlite file, which format 'openclaw' reads; give a host's home "
        "(~/.openclaw), an agent's folder, a sessions folder, or a .sqlite or .jsonl file"
    )


def test_forgotten_memories_and_agents_survive_a_conversion(
    tmp_path: Path, talk: Any, make_database: MakeDatabase
) -> None:
    log = talk("one")
    log.stores("The gate sticks", "row-1")
    log.says("user", "two")
    log.calls("memory_forget", "f", {"memoryId": "row-1"})
    log.answers("f", "memory_forget", {"action": "deleted", "id": "row-1"})
    log.says("user", "three")
    make_database(tmp_path / "home/agents/main/agent" / DATABASE, log)
    shutil.copytree(tmp_path / "home/agents/main", tmp_path / "home/agents/work")
    convert(tmp_path / "home", "openclaw", tmp_path / "out", name="mine")
    again = read_library(tmp_path / "out/datasets/mine", "lab")
    assert again.recordings == read_library(tmp_path / "home", "openclaw").recordings
    assert [memory.visible_until for memory in again.recordings[0].memories] == [2]


def test_validation_includes_the_inventory(tmp_path: Path, talk: Any) -> None:
    write(tmp_path / f"{FIRST}.jsonl", talk("one", "two"))
    found = validate(tmp_path, "openclaw").as_json()
    assert list(found["inventory"]["stocks"]) == [
        {
            "stored": "JSON Lines 3",
            "origin": "unknown",
            "conversations": 1,
            "turns": 2,
            "memories": 0,
            "first_ms": 1788249605000,
            "last_ms": 1788249610000,
        }
    ]
