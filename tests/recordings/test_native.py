"""Tests of the lab format: the recording of a valid file, and messages that name the file and line of an error."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.model import GoldenSet
from lab.recordings.convert import recording_lines
from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.native import read as read_native
from lab.recordings.readers import read_library

Line = dict[str, Any] | str
Read = Callable[..., Recording]
MARCH_2 = 1772413800000  # 2026-03-02T09:10:00+08:00


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that writes lines (objects or raw text) to ``c.jsonl`` and reads it."""

    def from_file(*lines: Line) -> Recording:
        path = tmp_path / "c.jsonl"
        path.write_text(
            "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), encoding="utf-8"
        )
        ((recording, golden),) = read_native(path, "recorded")
        assert golden == GoldenSet()
        return recording

    return from_file


def _header(**more: Any) -> dict[str, Any]:
    return {"kind": "recording", "schema": "lab.recording.v1", "conversation": "c", "title": "One"} | more


def _session(name: str = "s01", time: str = "2026-03-02T09:10:00+08:00", **more: Any) -> dict[str, Any]:
    return {"kind": "session", "session": name, "time": time, **more}


def _turn(name: str, text: str = "Hi", role: str = "user", **more: Any) -> dict[str, Any]:
    return {"kind": "turn", "turn": name, "role": role, "text": text, **more}


def _memory(text: str = "Says hi", **more: Any) -> dict[str, Any]:
    return {"kind": "memory", "text": text, **more}


def test_read_complete_recording_gives_turns_and_memories(read: Read) -> None:
    recording = read(
        _header(language="en+zh-Hant"),
        _session(scope="gateway"),
        _turn("t01", "Port 8080"),
        _memory("Port is 8080", category="decision", importance_label="must_remember"),
        _memory("說話簡短", index_text="terse", category="preference", importance_label="nice_to_have", scope="global"),
        _turn("t02", "Noted", "assistant"),
        _session("s02", "2026-03-03T01:10:00Z"),
        _turn("t01", "Now 9090"),
        _memory("Port is 9090", supersedes=["c/s01/t01#0"], importance_label=None),
    )
    march_3 = MARCH_2 + 86_400_000
    assert recording == Recording(
        "c",
        (
            Turn("c/s01/t01", 0, "s01", "user", "Port 8080", MARCH_2, "gateway", "user"),
            Turn("c/s01/t02", 1, "s01", "assistant", "Noted", MARCH_2 + 1, "gateway", "assistant"),
            Turn("c/s02/t01", 2, "s02", "user", "Now 9090", march_3, "global", "user"),
        ),
        (
            Memory("c/s01/t01#0", "Port is 8080", "Port is 8080", 1, MARCH_2, "decision", "gateway", "must_remember"),
            Memory("c/s01/t01#1", "說話簡短", "terse", 1, MARCH_2 + 1, "preference", "global", "nice_to_have"),
            Memory("c/s02/t01#0", "Port is 9090", "Port is 9090", 3, march_3, "fact", "global", None, ("c/s01/t01#0",)),
        ),
        language="en+zh-Hant",
    )
    assert recording.sessions == ("s01", "s02")
    assert recording.has_labels


def test_memory_with_due_time_is_read_and_written_back(read: Read) -> None:
    recording = read(_header(), _session(), _turn("t01"), _memory(due_at="2026-11-20T10:00:00+08:00"), _memory())
    assert [memory.due_at for memory in recording.memories] == [1_795_140_000_000, None]
    lines = [json.loads(line) for line in recording_lines(recording).splitlines()]
    assert [line["due_at"] for line in lines if "due_at" in line] == ["2026-11-20T02:00:00.000+00:00"]
    with pytest.raises(UnusableInput, match="has no time zone"):
        read(_header(), _session(), _turn("t01"), _memory(due_at="2026-11-20"))


def test_memory_with_media_is_read_and_written_back(read: Read) -> None:
    given = {"media_refs": ["a.png", "https://pictures.example/b.png"], "media_kind": "image"}
    recording = read(_header(), _session(), _turn("t01"), _memory(**given), _memory())
    known, plain = recording.memories
    assert (known.media_refs, known.media_kind) == (("a.png", "https://pictures.example/b.png"), "image")
    assert (plain.media_refs, plain.media_kind) == ((), "")
    lines = [json.loads(line) for line in recording_lines(recording).splitlines()]
    written = [{name: line[name] for name in given if name in line} for line in lines if line["kind"] == "memory"]
    assert written == [given, {}]
    with pytest.raises(UnusableInput, match="media_refs"):
        read(_header(), _session(), _turn("t01"), _memory(media_refs=[5]))


def test_memory_with_provenance_is_read_and_written_back(read: Read) -> None:
    given = {"source_kind": "tool", "source_ref": "web_search", "lang": "zh"}
    recording = read(_header(), _session(), _turn("t01"), _memory(**given), _memory())
    known, plain = recording.memories
    assert (known.source_kind, known.source_ref, known.lang) == ("tool", "web_search", "zh")
    assert (plain.source_kind, plain.source_ref, plain.lang) == ("", "", "")
    lines = [json.loads(line) for line in recording_lines(recording).splitlines()]
    written = [{name: line[name] for name in given if name in line} for line in lines if line["kind"] == "memory"]
    assert written == [given, {}]
    with pytest.raises(UnusableInput, match="source_kind 'friend' is none of"):
        read(_header(), _session(), _turn("t01"), _memory(source_kind="friend"))


def test_read_memory_with_trust_and_hard_rule_keeps_both(read: Read) -> None:
    recording = read(_header(), _session(), _turn("t01"), _memory(trust="untrusted"), _memory(hard_rule=True))
    assert [(memory.trust, memory.hard_rule) for memory in recording.memories] == [("untrusted", False), ("user", True)]
    with pytest.raises(UnusableInput, match="field 'hard_rule': expected true or false, found a string"):
        read(_header(), _session(), _turn("t01"), _memory(hard_rule="yes"))


def test_read_recording_without_labels_has_no_labels(read: Read) -> None:
    recording = read(_header(), _session(), _turn("t01"), _memory())
    assert not recording.has_labels
    assert recording.language == "en"


def test_read_overlapping_sessions_keeps_times_increasing(read: Read) -> None:
    talk = [_turn(f"t{number:02d}") for number in range(1, 6)]
    recording = read(_header(), _session(), *talk, _session("s02", "2026-03-02T09:10:00.002+08:00"), _turn("t01"))
    assert [turn.time_ms - MARCH_2 for turn in recording.turns] == [0, 1, 2, 3, 4, 5]


def test_read_memories_of_one_turn_keep_file_order(read: Read) -> None:
    recording = read(_header(), _session(), _turn("t01"), _memory("b"), _memory("a"), _turn("t02"), _memory("c"))
    assert [
        (memory.key, memory.text, memory.created_at - MARCH_2, memory.visible_from) for memory in recording.memories
    ] == [
        ("c/s01/t01#0", "b", 0, 1),
        ("c/s01/t01#1", "a", 1, 1),
        ("c/s01/t02#0", "c", 2, 2),
    ]


def test_read_lone_surrogate_in_text_is_kept(read: Read) -> None:
    recording = read(_header(), _session(), _turn("t01", "half \ud83d"), _memory("half \ud83d"))
    assert (recording.turns[0].text, recording.memories[0].text) == ("half \ud83d", "half \ud83d")


LABELS = "must_remember, nice_to_have, ignore, unknown"
CATEGORIES = "preference, fact, decision, entity, todo, other"
FIRST = '1: the first line must be {"kind": "recording", "schema": "lab.recording.v1", …}'
GOOD: list[Line] = [_header(), _session(), _turn("t01"), _memory()]
BAD: list[tuple[str, list[Line], str]] = [
    ("header absent", [_session(), _turn("t01")], FIRST),
    ("other schema", [_header(schema="lab.recording.v2")], FIRST),
    ("no conversation", [{"kind": "recording", "schema": "lab.recording.v1"}], "1: has no field 'conversation'"),
    ("conversation number", [_header(conversation=7)], "1: field 'conversation': expected a string, found a number"),
    ("header twice", [*GOOD, _header()], "5: kind 'recording' is none of session, turn, memory"),
    ("no kind", [*GOOD, {"text": "x"}], "5: kind None is none of session, turn, memory"),
    ("other kind", [*GOOD, {"kind": "note"}], "5: kind 'note' is none of session, turn, memory"),
    ("kind a list", [*GOOD, {"kind": ["turn"]}], "5: kind ['turn'] is none of session, turn, memory"),
    ("not JSON", [*GOOD, '{"kind": "turn",}'], "5: not JSON: "),
    ("not an object", [*GOOD, "[]"], "5: expected one JSON object a line, found a list"),
    ("after blank lines", [*GOOD, "", "", {"kind": "note"}], "7: kind 'note' is none of"),
    ("turn before session", [_header(), _turn("t01")], "2: this turn comes before the first session line"),
    (
        "memory before session",
        [_header(), _memory()],
        "2: this memory comes before the first turn of its session; move it, or give it a key",
    ),
    (
        "memory before the turn of its session",
        [*GOOD, _session("s02", "2026-03-03T09:10:00+08:00"), _memory()],
        "6: this memory comes before the first turn of its session; move it, or give it a key",
    ),
    ("session twice", [*GOOD, _session("s01", "2026-03-03T09:10:00+08:00")], "5: 'c/s01' occurs twice"),
    ("turn twice", [*GOOD, _turn("t02"), _turn("t01")], "6: 'c/s01/t01' occurs twice"),
    ("time no date", [_header(), _session(time="yesterday")], "2: time 'yesterday' is not ISO 8601"),
    (
        "time without zone",
        [_header(), _session(time="2026-03-02T09:10:00")],
        "2: time '2026-03-02T09:10:00' has no time zone; write, for example, 2026-03-02T09:10:00+08:00",
    ),
    (
        "time before 1970",
        [_header(), _session(time="1969-12-31T23:59:59Z")],
        "2: time '1969-12-31T23:59:59Z' is before 1970",
    ),
    ("time number", [_header(), _session(time=7)], "2: field 'time': expected a string, found a number"),
    (
        "same moment in another zone",
        [*GOOD, _session("s02", "2026-03-02T01:10:00Z")],
        "5: session 's02' does not begin after the previous session",
    ),
    (
        "earlier session",
        [*GOOD, _session("s02", "2026-03-01T09:10:00+08:00")],
        "5: session 's02' does not begin after the previous session",
    ),
    (
        "turn before its session",
        [_header(), _session(), _turn("t01") | {"time": "2026-03-02T09:09:59+08:00"}],
        "3: turn 't01' is not later than the previous turn, or is earlier than its session",
    ),
    ("session without time", [_header(), {"kind": "session", "session": "s01"}], "2: has no field 'time'"),
    ("session typo", [_header(), _session(scop="x")], "2: a session line has no field 'scop'"),
    ("turn typo", [*GOOD, _turn("t02", txet="x")], "5: a turn line has no field 'txet'"),
    ("memory typo", [*GOOD, _memory(labels="x", importence="y")], "5: a memory line has no field 'importence'"),
    ("turn without text", [*GOOD, {"kind": "turn", "turn": "t02", "role": "user"}], "5: has no field 'text'"),
    ("text null", [*GOOD, _turn("t02", None)], "5: field 'text': expected a string, found null"),
    ("other role", [*GOOD, _turn("t02", role="User")], "5: role 'User' is none of user, assistant, tool, system"),
    ("memory without text", [*GOOD, {"kind": "memory"}], "5: has no field 'text'"),
    ("other category", [*GOOD, _memory(category="rule")], f"5: category 'rule' is none of {CATEGORIES}"),
    ("category null", [*GOOD, _memory(category=None)], f"5: category None is none of {CATEGORIES}"),
    ("other label", [*GOOD, _memory(importance_label="must")], f"5: importance_label 'must' is none of {LABELS}"),
    ("label list", [*GOOD, _memory(importance_label=["ignore"])], "5: importance_label ['ignore'] is none of"),
    (
        "supersedes text",
        [*GOOD, _memory(supersedes="c/s01/t01#0")],
        "5: field 'supersedes': expected a list, found a string",
    ),
    (
        "supersedes nothing",
        [*GOOD, _memory(supersedes=["c/s01/t01#9"])],
        "5: supersedes 'c/s01/t01#9', which is not an earlier memory",
    ),
    (
        "supersedes itself",
        [*GOOD, _memory(supersedes=["c/s01/t01#1"])],
        "5: supersedes 'c/s01/t01#1', which is not an earlier memory",
    ),
    (
        "supersedes a later one",
        [_header(), _session(), _turn("t01"), _memory(supersedes=["c/s01/t01#1"]), _memory()],
        "4: supersedes 'c/s01/t01#1', which is not an earlier memory",
    ),
    (
        "supersedes a turn",
        [*GOOD, _memory(supersedes=["c/s01/t01"])],
        "5: supersedes 'c/s01/t01', which is not an earlier memory",
    ),
    ("supersedes an object", [*GOOD, _memory(supersedes=[{"key": "c/s01/t01#0"}])], "5: "),
    ("index_text null", [*GOOD, _memory(index_text=None)], "5: field 'index_text': expected a string, found null"),
    ("memory scope null", [*GOOD, _memory(scope=None)], "5: field 'scope': expected a string, found null"),
    ("session scope number", [_header(), _session(scope=7)], "2: field 'scope': expected a string, found a number"),
    ("language null", [_header(language=None)], "1: field 'language': expected a string, found null"),
]


@pytest.mark.parametrize(("lines", "problem"), [case[1:] for case in BAD], ids=[name for name, _, _ in BAD])
def test_read_invalid_line_names_file_and_line(tmp_path: Path, read: Read, lines: list[Line], problem: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read(*lines)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'c.jsonl'}:{problem}")
    assert "\n" not in message


@pytest.mark.parametrize("data", ["", "\n\n"], ids=["no byte", "blank lines"])
def test_read_empty_file_names_file(tmp_path: Path, data: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(data, encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_native(path, "recorded")
    assert str(caught.value) == f"{path}: is empty; its first line must be the recording header"


def _raw(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def test_read_shipped_recordings_match_their_lines(operators: Path) -> None:
    files = sorted(operators.glob("*.jsonl"))
    assert len(files) >= 6
    for path in files:
        header, *lines = _raw(path)
        ((recording, _),) = read_native(path, "recorded")
        assert recording.conversation == header["conversation"] == path.stem
        turns, memories = [], []
        session, turn, ordinal = "", "", 0
        for line in lines:
            if line["kind"] == "session":
                session = line["session"]
            elif line["kind"] == "turn":
                turn, ordinal = f"{path.stem}/{session}/{line['turn']}", 0
                turns.append((turn, line["role"], line["text"]))
            else:
                memories.append((f"{turn}#{ordinal}", line["text"], line["importance_label"], len(turns)))
                ordinal += 1
        assert [(turn.key, turn.role, turn.text) for turn in recording.turns] == turns
        assert [
            (memory.key, memory.text, memory.label, memory.visible_from) for memory in recording.memories
        ] == memories


def test_shipped_recordings_have_increasing_times(operators: Path) -> None:
    for recording in read_library(operators, "lab").recordings:
        for times in ([turn.time_ms for turn in recording.turns], [memory.created_at for memory in recording.memories]):
            assert all(before < after for before, after in pairwise(times))


@pytest.mark.parametrize("place", [0.0, 0.3, 0.6, 0.99])
def test_read_shipped_recording_with_spoilt_line_names_line(tmp_path: Path, operators: Path, place: float) -> None:
    source = sorted(operators.glob("*.jsonl"))[0]
    lines = source.read_text(encoding="utf-8").rstrip("\n").split("\n")
    number = int(place * len(lines))
    lines[number] = lines[number][:-2]
    path = tmp_path / source.name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_native(path, "recorded")
    assert str(caught.value).startswith(f"{path}:{number + 1}: not JSON: ")


def test_read_shipped_recording_without_session_line_names_line(tmp_path: Path, operators: Path) -> None:
    source = sorted(operators.glob("*.jsonl"))[0]
    lines = source.read_text(encoding="utf-8").split("\n")
    path = tmp_path / source.name
    path.write_text("\n".join(lines[:1] + lines[2:]), encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_native(path, "recorded")
    assert str(caught.value) == f"{path}:2: this turn comes before the first session line"
