"""Tests of sessions with one id: copies, halves of one session, and conversations that have only the id in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.recordings.openclaw.entries import Transcript, merged, parse_file
from lab.recordings.readers import Library, read_library
from tests.recordings.openclaw.conftest import ID, Log

DATABASE = "agents/main/agent/openclaw-agent.sqlite"
SESSIONS = "agents/main/sessions"
MakeDatabase = Callable[..., Path]


def said(library: Library) -> dict[str, list[str]]:
    return {recording.conversation: [turn.text for turn in recording.turns] for recording in library.recordings}


def memories(library: Library) -> dict[str, list[str]]:
    return {recording.conversation: [memory.text for memory in recording.memories] for recording in library.recordings}


def write(path: Path, lines: list[Any]) -> Path:
    log = Log()
    log.lines = lines
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(log.text(), "utf-8")
    return path


def half(log: Log, start: int, end: int) -> Log:
    """A copy of a log with its header and only some of its entries."""
    part = Log(log.id)
    part.lines = [log.lines[0], *log.lines[1:][start:end]]
    part.last = part.lines[-1]["id"]
    return part


@pytest.fixture
def whole() -> Log:
    """A session of six user messages and two memories: at the second and the fifth message."""
    log = Log()
    for number in range(6):
        log.says("user", f"{number}")
        if number in (1, 4):
            log.stores(f"memory {number}", f"row-{number}")
    return log


def test_newer_half_in_the_database_and_older_file_are_read_as_one(
    tmp_path: Path, whole: Log, make_database: MakeDatabase
) -> None:
    make_database(tmp_path / DATABASE, half(whole, 2, 10))
    write(tmp_path / SESSIONS / f"{ID}.jsonl", half(whole, 0, 6).lines)
    library = read_library(tmp_path, "openclaw")
    assert said(library) == {ID: ["0", "1", "2", "3", "4", "5"]}
    assert memories(library) == {ID: ["memory 1", "memory 4"]}
    assert library.recordings[0].notes[0] == (
        f"{ID}: read from openclaw-agent.sqlite and {ID}.jsonl, which are copies; entries that only the latter have: 2"
    )
    assert sorted(library.names) == [f"{ID}.jsonl", Path(DATABASE).name]


def test_session_that_continues_another_is_read_with_it(
    tmp_path: Path, whole: Log, make_database: MakeDatabase
) -> None:
    make_database(tmp_path / DATABASE, half(whole, 5, 10))
    write(tmp_path / SESSIONS / f"{ID}.jsonl", half(whole, 0, 5).lines)
    assert said(read_library(tmp_path, "openclaw")) == {ID: ["0", "1", "2", "3", "4", "5"]}


def test_what_only_an_older_backup_has_is_an_abandoned_branch_and_its_memory_stays(tmp_path: Path) -> None:
    log = Log()
    root = log.says("user", "one")
    log.stores("of the backup", "row-1")
    log.says("user", "left")
    write(tmp_path / "backup.jsonl", list(log.lines))
    del log.lines[2:]
    log.lines.append(
        {
            "type": "message",
            "id": "z",
            "parentId": root,
            "timestamp": "2026-09-01T09:00:00.000Z",
            "message": {"role": "user", "content": "two"},
        }
    )
    write(tmp_path / f"{ID}.jsonl", log.lines)
    library = read_library(tmp_path, "openclaw")
    assert (said(library), memories(library)) == ({ID: ["one", "two"]}, {ID: ["of the backup"]})


def test_conversations_that_share_only_the_id_are_read_apart(
    tmp_path: Path, whole: Log, make_database: MakeDatabase
) -> None:
    make_database(tmp_path / DATABASE, whole)
    later = [line | {"timestamp": "2026-10-01T08:00:00.000Z"} for line in whole.lines]
    # The same numbered ids, and other words.
    for line in later[1:]:
        if line["message"]["role"] == "user":
            line["message"] = line["message"] | {"content": f"other {line['message']['content']}"}
    write(tmp_path / SESSIONS / f"{ID}.jsonl", later)
    library = read_library(tmp_path, "openclaw")
    texts = [str(number) for number in range(6)]
    assert said(library) == {ID: texts, f"{ID}@jsonl": [f"other {text}" for text in texts]}
    assert memories(library) == {name: ["memory 1", "memory 4"] for name in (ID, f"{ID}@jsonl")}
    note = f"{ID}@jsonl: shares no entry with the session of the same id, so it is a separate conversation"
    assert note in library.golden.notes


def test_names_of_separate_conversations_stay_while_one_grows(tmp_path: Path, new_log: Any) -> None:
    def talk(day: int, *texts: str) -> list[Any]:
        log = new_log()
        for text in texts:
            log.says("user", text)
        return [line | {"timestamp": f"2026-09-{day:02}T08:00:00.000Z"} for line in log.lines]

    names = []
    for length in (1, 9):
        write(tmp_path / "second.jsonl", talk(5, *(f"b{number}" for number in range(length))))
        write(tmp_path / "first.jsonl", talk(1, "a1", "a2", "a3"))
        write(tmp_path / "third.jsonl", talk(9, "c1"))
        names.append({name: texts[0] for name, texts in said(read_library(tmp_path, "openclaw")).items()})
    assert names == [{ID: "a1", f"{ID}@second": "b0", f"{ID}@third": "c1"}] * 2


def test_file_that_the_host_gave_ids_is_a_copy_of_the_one_without(tmp_path: Path, whole: Log) -> None:
    write(tmp_path / f"{ID}.jsonl", whole.lines)
    older = [whole.lines[0] | {"version": 1}]
    older += [
        {name: value for name, value in line.items() if name not in ("id", "parentId")} for line in whole.lines[1:]
    ]
    write(tmp_path / "old.jsonl", older)
    library = read_library(tmp_path, "openclaw")
    assert (len(said(library)), memories(library)) == (1, {ID: ["memory 1", "memory 4"]})
    assert list(said(library).values()) == [["0", "1", "2", "3", "4", "5"]]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_merging_parts_of_a_log_gives_each_entry_once_in_order(data: st.DataObject) -> None:
    log = Log()
    for number in range(data.draw(st.integers(1, 12))):
        log.says("user", f"{number}")
    size = len(log.lines) - 1
    begin = data.draw(st.integers(0, size - 1))
    older = parse_file(half(log, 0, max(1, data.draw(st.integers(begin, size)))).text().encode())
    newer = parse_file(half(log, begin, size).text().encode())
    both = merged(older, newer)
    texts = [entry.value["message"]["content"] for entry in both.entries if "message" in entry.value]
    covered = {entry.value.get("id") for part in (older, newer) for entry in part.entries}
    assert texts == [line["message"]["content"] for line in log.lines[1:] if line["id"] in covered]
    assert isinstance(both, Transcript)
    assert len({entry.line for entry in both.entries}) == len(both.entries)
