"""Tests of OpenClaw transcripts: a tree of entries, its active branch, and the stored memories."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.openclaw.folders import find
from lab.recordings.readers import read_library
from lab.recordings.validate import validate

ID = "6f0c7a5e-0000-4000-8000-000000000001"
APRIL_2 = 1775091600000  # 2026-04-02T01:00:00Z
Entry = dict[str, Any]
Read = Callable[..., Recording]


def header(**changes: Any) -> Entry:
    return {"type": "session", "version": 3, "id": ID, "timestamp": "2026-04-02T01:00:00.000Z", "cwd": "/x"} | changes


class Log:
    """A builder of one branch: each entry is a child of the previous one, five seconds later."""

    def __init__(self, **changes: Any) -> None:
        self.lines: list[Any] = [header(**changes)]
        self.last: str | None = None

    def add(self, kind: str, parent: str | None = "", **fields: Any) -> str:
        number = len(self.lines)
        identity = f"e{number:07}"
        second = f"2026-04-02T01:00:{5 * number:02}.000Z"
        above = self.last if parent == "" else parent
        self.lines.append({"type": kind, "id": identity, "parentId": above, "timestamp": second} | fields)
        self.last = identity
        return identity

    def says(self, role: str, content: Any, parent: str | None = "", **fields: Any) -> str:
        return self.add("message", parent, message={"role": role, "content": content} | fields)

    def stores(self, *calls: Entry) -> str:
        parts = [{"type": "toolCall", "name": "memory_store", **call} for call in calls]
        return self.says("assistant", [{"type": "thinking", "thinking": "hm"}, *parts])

    def answers(self, call: str, **fields: Any) -> str:
        text = [{"type": "text", "text": "stored"}]
        return self.says("toolResult", text, toolCallId=call, toolName="memory_store", **fields)


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes lines (objects or raw text) to a session file and reads it."""

    def from_lines(lines: list[Any], name: str = "a.jsonl", end: str = "\n") -> Recording:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_text("\n".join(texts) + end, "utf-8")
        (recording,) = read_library(path, "openclaw").recordings
        return recording

    return from_lines


def said(recording: Recording) -> list[str]:
    return [turn.text for turn in recording.turns]


def test_turns_are_user_and_assistant_messages(read: Read) -> None:
    log = Log()
    log.add("model_change", provider="acme", modelId="m-1")
    parts = [
        {"type": "text", "text": "以後報告都用"},
        {"type": "image", "data": "x"},
        {"type": "text", "text": "繁體中文。"},
    ]
    log.says("user", parts)
    log.says("assistant", [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "好。"}], stopReason="stop")
    log.says("bashExecution", "ls")
    recording = read(log.lines)
    assert recording.turns == (
        Turn(f"{ID}/{ID}/e0000002", 0, ID, "user", "以後報告都用\n繁體中文。", APRIL_2 + 10000, speaker="user"),
        Turn(f"{ID}/{ID}/e0000003", 1, ID, "assistant", "好。", APRIL_2 + 15000, speaker="assistant"),
    )
    assert (recording.conversation, recording.memories, recording.notes) == (ID, (), ())


def test_active_branch_is_the_path_from_last_entry_to_root(read: Read) -> None:
    log = Log()
    first = log.says("user", "one")
    log.says("user", "left")
    log.says("assistant", "left, too")
    log.says("user", "two", parent=first)
    log.add("label", targetId=first, label="here")
    recording = read(log.lines)
    assert said(recording) == ["one", "two"]
    assert recording.notes == (f"{ID}: messages on abandoned branches, not replayed: 2",)


def test_version_1_has_no_ids_and_is_read_in_order(read: Read) -> None:
    log = Log(version=1)
    log.says("user", "one")
    log.says("assistant", "two")
    for line in log.lines[1:]:
        del line["id"], line["parentId"]
    recording = read(log.lines)
    assert [turn.key for turn in recording.turns] == [f"{ID}/{ID}/line2", f"{ID}/{ID}/line3"]
    assert recording.notes == ()


def test_spoilt_line_and_truncated_tail_are_skipped(read: Read) -> None:
    log = Log()
    log.says("user", "one")
    gone = log.says("assistant", "gone")
    log.says("user", "two")
    lines = [json.dumps(line) if isinstance(line, dict) else line for line in log.lines]
    lines[2] = lines[2][:-9]
    recording = read([*lines[:3], "", "[1]", *lines[3:], '{"type": "mess'], end="")
    assert said(recording) == ["one", "two"]
    assert gone == "e0000002"
    assert recording.notes == (
        f"{ID}: the last line, 7, is truncated and was skipped",
        f"{ID}: lines that are not JSON entries, skipped (first: line 3): 2",
        f"{ID}: entries whose parent is missing, attached to the previous entry: 1",
    )


def test_tail_truncated_inside_a_character_is_skipped(tmp_path: Path) -> None:
    log = Log()
    log.says("user", "茶")
    whole = "\n".join(json.dumps(line, ensure_ascii=False) for line in log.lines).encode()
    path = tmp_path / "a.jsonl"
    path.write_bytes(whole + b"\n" + '{"type": "message", "text": "茶'.encode()[:-1])
    assert said(read_library(path, "openclaw").recordings[0]) == ["茶"]


def test_reset_begins_a_session_and_compaction_does_not(read: Read) -> None:
    log = Log()
    log.says("user", "one")
    log.add("compaction", summary="s", firstKeptEntryId="e0000001", tokensBefore=9)
    log.says("user", "two")
    log.add("reset")
    log.add("reset")
    log.says("user", "three")
    recording = read(log.lines)
    assert [(turn.session, turn.text) for turn in recording.turns] == [(ID, "one"), (ID, "two"), (f"{ID}#2", "three")]
    assert recording.notes == (f"{ID}: compactions, which remove nothing from a replay: 1",)


def test_host_text_is_removed_and_counted(read: Read) -> None:
    log = Log()
    log.says(
        "user", "<relevant-memories>\n1. [fact|unknown] x\n</relevant-memories>\n\n[Thu 2026-04-02 09:00 GMT+8] one"
    )
    log.says("assistant", "Well.")
    log.says("user", "Look.")
    log.says("assistant", "NO_REPLY")
    log.says("user", [{"type": "image", "data": "x", "mimeType": "image/png"}])
    log.add("branch_summary", fromId="e0000001", summary="s")
    log.add("custom_message", customType="note", content="c", display=False)
    log.add("session_info", name="n")
    log.add("hologram")
    log.add("message", message="odd")
    recording = read(log.lines)
    assert said(recording) == ["one", "Well."]
    assert recording.notes == (
        f"{ID}: removed from user messages: relevant-memories block 1, time stamp 1",
        f"{ID}: entries of the unknown type 'hologram', skipped: 1",
        f"{ID}: messages of the host (prompts that were answered with NO_REPLY alone), skipped: 1",
        f"{ID}: messages without a role, skipped: 1",
        f"{ID}: replies to messages of the host, skipped: 1",
        f"{ID}: texts of the host for the model, skipped: 2",
        f"{ID}: user messages without any text of the user, skipped: 1",
    )


def test_confirmed_store_is_a_memory_from_the_next_turn(read: Read) -> None:
    log = Log()
    log.says("user", "one")
    log.stores(
        {
            "id": "t1",
            "arguments": {"text": "報告用繁體中文", "category": "Preference", "importance": 0.9, "scope": "Shop"},
        },
        {"id": "t2", "arguments": {"text": "the kiln is blue"}},
        {"id": "t3", "arguments": {"text": "refused"}},
        {"id": "t4", "arguments": {"text": "never answered"}},
        {"id": "t5", "arguments": {"category": "fact"}},
    )
    log.answers("t2", details={"action": "created", "importance_label": "unknown", "scope": "global"})
    log.answers("t1", isError=False)
    log.answers("t3", isError=True)
    log.answers("elsewhere")
    log.says("user", "two")
    recording = read(log.lines)
    at = f"{ID}/{ID}/e0000002"
    assert recording.memories == (
        Memory(f"{at}#1", "the kiln is blue", "the kiln is blue", 1, APRIL_2 + 15000, "other", label="unknown"),
        Memory(
            f"{at}#0", "報告用繁體中文", "報告用繁體中文", 1, APRIL_2 + 20000, "preference", "shop", "must_remember"
        ),
    )
    assert recording.notes == (
        f"{ID}: calls of memory_store that stored nothing (failed): 1",
        f"{ID}: calls of memory_store without a result, which count as not stored: 1",
        f"{ID}: calls of memory_store without a text: 1",
    )


@pytest.mark.parametrize(
    ("importance", "label"),
    [
        (0.8, "must_remember"),
        ("0.5", "nice_to_have"),
        (0.49, "ignore"),
        ("", "ignore"),
        (None, "unknown"),
        ("high", "unknown"),
    ],
)
def test_label_of_stored_memory_follows_its_score(read: Read, importance: Any, label: str) -> None:
    log = Log()
    log.says("user", "one")
    log.stores({"id": "t1", "arguments": {"text": "x", "importance": importance}})
    log.answers("t1")
    assert [memory.label for memory in read(log.lines).memories] == [label]


def test_times_increase_and_fall_back_to_message_time(read: Read) -> None:
    log = Log()
    log.says("user", "one", timestamp=5)
    log.lines[-1]["timestamp"] = "soon"
    log.says("user", "two")
    log.says("user", "three")
    log.lines[-1]["timestamp"] = "2020-01-01T00:00:00Z"
    log.says("user", "four")
    del log.lines[-1]["timestamp"]
    recording = read(log.lines)
    two = APRIL_2 + 10000
    assert [turn.time_ms for turn in recording.turns] == [5, two, two + 1, two + 2]
    assert recording.notes == (
        f"{ID}: entries without a time, which get the time of the previous turn: 1",
        f"{ID}: times before 2000: 1",
    )


def test_topic_file_is_a_separate_conversation(read: Read) -> None:
    log = Log()
    log.says("user", "one")
    assert read(log.lines, f"{ID}-topic-17.jsonl").conversation == f"{ID}-topic-17"
    assert read(log.lines, "copy.jsonl").conversation == ID


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([], ":1: is not a session header"),
        ([{"type": "message", "message": {"role": "user", "content": "one"}}], ":1: is not a session header"),
        (["{", header()], ": has no message of a user or an assistant"),
        ([header()], ": has no message of a user or an assistant"),
        ([header(version=5)], ":1: version 5 is none of 1, 2, 3, 4"),
    ],
)
def test_file_without_header_or_message_is_refused(read: Read, lines: list[Any], what: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(lines)
    assert str(caught.value).startswith(f"{tmp_path / 'a.jsonl'}{what}")


def test_other_files_of_a_sessions_folder_are_skipped(tmp_path: Path) -> None:
    others = ["sessions.json", "a.trajectory.jsonl", "a.jsonl.reset.2026-04-02", "a.reset.1.jsonl", "a.bak.jsonl"]
    others += ["a.jsonl.bak", "a.checkpoint.7.jsonl", "a.jsonl.deleted.1", "a.deleted.1.jsonl"]
    for name in ("a.jsonl", "b-topic-1.jsonl", *others):
        (tmp_path / name).write_text("{}\n")
    (place,) = find(tmp_path).locations
    assert [path.name for path in place.transcripts] == ["a.jsonl", "b-topic-1.jsonl"]


def test_validation_lists_the_notes(tmp_path: Path) -> None:
    log = Log()
    log.says("user", "one")
    log.add("compaction", summary="s")
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log.lines))
    found = validate(path, "openclaw")
    assert (found.errors, found.conversations[0].turns) == ((), 1)
    assert found.warnings[0] == f"{ID}: compactions, which remove nothing from a replay: 1"
