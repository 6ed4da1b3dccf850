"""Tests of which messages are turns, which belong to the host, and that every entry is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.recordings.convert import recording_lines
from lab.recordings.model import Recording
from lab.recordings.openclaw import gather

BY_HOST = {"provider": "openclaw", "model": "gateway-injected"}


def recorded(tmp_path: Path, log: Any) -> Recording:
    path = tmp_path / "a.jsonl"
    path.write_text(log.text(), "utf-8")
    gathered = gather(path)
    (recording,) = gathered.recordings
    entries = sum(1 for line in log.lines if not isinstance(line, str) or line.strip())
    assert len(recording.turns) + sum(skipped.count for skipped in gathered.inventory.passed) == entries
    return recording


def said(recording: Recording) -> list[str]:
    return [turn.text for turn in recording.turns]


def test_heartbeat_and_its_reply_are_not_turns(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("user", "[OpenClaw heartbeat poll]", provenance={"kind": "internal_system", "sourceTool": "heartbeat"})
    log.stores("Kept by the heartbeat", "row-1")
    log.says("assistant", "All is well.")
    log.says("user", "Run the job.", provenance={"kind": "internal_system"})
    log.says("assistant", "Done.")
    log.says("user", "two")
    log.says("assistant", "three")
    recording = recorded(tmp_path, log)
    assert said(recording) == ["one", "two", "three"]
    assert [memory.visible_from for memory in recording.memories] == [1]
    assert recording.notes == (
        f"{log.id}: messages of the host (heartbeats), skipped: 1",
        f"{log.id}: messages of the host (marked as internal), skipped: 1",
        f"{log.id}: replies to messages of the host, skipped: 3",
    )


def test_command_that_the_host_answers_is_not_a_turn(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("user", "/compact")
    log.says("assistant", "Compacted", **BY_HOST)
    log.says("user", "/status")
    log.says("assistant", "Fine", **BY_HOST)
    log.says("assistant", "A notice", **BY_HOST)
    log.says("user", "/compact keep the list")
    recording = recorded(tmp_path, log)
    assert said(recording) == ["one"]
    assert recording.notes == (
        f"{log.id}: commands that the host answers, skipped: 3",
        f"{log.id}: replies by the host, skipped: 3",
    )


@pytest.mark.parametrize("text", ["/tmp is full, what may go?", "/etc/hosts", "/compact", "/ 你好", "//x"])
def test_text_with_a_slash_that_the_model_answers_is_a_turn(tmp_path: Path, new_log: Any, text: str) -> None:
    log = new_log()
    log.says("user", text)
    log.says("assistant", "Let me see.", model="m-1")
    assert said(recorded(tmp_path, log)) == [text, "Let me see."]


@pytest.mark.parametrize("text", ["/etc/hosts is wrong", "/notes.txt", "/ why"])
def test_path_that_the_host_answers_is_a_turn(tmp_path: Path, new_log: Any, text: str) -> None:
    log = new_log()
    log.says("user", text)
    log.says("assistant", "The model cannot be reached", **BY_HOST)
    assert said(recorded(tmp_path, log)) == [text]


def test_selected_leaf_ends_the_branch(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    first = log.says("user", "one")
    log.says("assistant", "left")
    log.add("leaf", targetId=first)
    assert said(recorded(tmp_path, log)) == ["one"]
    log.says("user", "two", parent=first)
    assert said(recorded(tmp_path, log)) == ["one", "two"]
    log.add("leaf", targetId=first)
    log.says("user", "three")
    assert said(recorded(tmp_path, log)) == ["one", "three"]


def test_every_entry_is_a_turn_or_counted(tmp_path: Path, new_log: Any) -> None:
    log = new_log()
    log.add("model_change", provider="acme")
    log.says("user", "one")
    log.says("bashExecution", "ls")
    log.says("custom", "", customType="another")
    log.add("hologram")
    log.add("message", message="odd")
    log.says("assistant", [])
    log.says("user", "two")
    log.says("assistant", "HEARTBEAT_OK")
    log.lines += ["{", "[1]", '{"type": "mess']
    assert said(recorded(tmp_path, log)) == ["one"]


@pytest.mark.parametrize("late", [260000000000000, 253402300799999, 1e300, "9999-12-31T23:59:59-12:00", -1])
def test_entry_with_out_of_range_time_has_no_time(tmp_path: Path, new_log: Any, late: object) -> None:
    log = new_log()
    log.says("user", "one")
    log.says("user", "two")
    log.lines[2]["timestamp"] = late
    log.says("user", "three")
    log.lines[3]["timestamp"] = "9998-12-31T23:59:59.999Z"
    log.says("user", "four")
    log.lines[4]["timestamp"] = late
    recording = recorded(tmp_path, log)
    first, last = 1788249605000, 253370764799999
    assert [turn.time_ms for turn in recording.turns] == [first, first + 1, last, last + 1]
    assert recording.notes == (
        f"{log.id}: entries without a time, which get the time of the previous turn: 2",
        f"{log.id}: times after tomorrow: 1",
    )
    assert b"9998-12-31T23:59:59.999+00:00" in recording_lines(recording)


@pytest.mark.parametrize("identity", ["\\ud800", "\\u001b[2J", "\\u0000"])
def test_entry_with_invalid_id_is_keyed_by_its_line(tmp_path: Path, identity: str) -> None:
    head = '{"type":"session","version":3,"id":"s1","timestamp":"2026-04-02T01:00:00Z"}'
    line = '{"type":"message","id":"%s","parentId":null,"message":{"role":"user","content":"hello there"}}'
    path = tmp_path / "a.jsonl"
    path.write_text(f"{head}\n{line % identity}\n", "utf-8")
    (recording,) = gather(path).recordings
    assert [turn.key for turn in recording.turns] == ["s1/s1/line2"]
    path.write_text(f"{head.replace('s1', identity)}\n{line % 'm1'}\n", "utf-8")
    assert [recording.conversation for recording in gather(path).recordings] == ["a"]
