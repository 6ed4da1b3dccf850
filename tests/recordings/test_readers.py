"""Tests of reading and validating files and folders of recordings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.golden.files import read_golden
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings import native
from lab.recordings.formats import FORMATS, VARIANTS, format_named
from lab.recordings.model import Recording
from lab.recordings.readers import check_probes, files_of, read_library, with_golden
from lab.recordings.validate import Counts, validate

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a small conversation in the lab format."""

    def to_file(name: str, conversation: str | None = None, *more: dict[str, Any]) -> Path:
        path = tmp_path / name
        lines: list[dict[str, Any]] = [
            {"kind": "recording", "schema": "lab.recording.v1", "conversation": conversation or path.stem},
            {"kind": "session", "session": "s01", "time": "2026-03-02T09:10:00+08:00"},
            {"kind": "turn", "turn": "t01", "role": "user", "text": "Port 8080."},
            {"kind": "memory", "text": "The port is 8080."},
            {"kind": "turn", "turn": "t02", "role": "user", "text": "Which port?"},
            *more,
        ]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return path

    return to_file


def _probe(conversation: str = "one", **changes: Any) -> Probe:
    turn = f"{conversation}/s01/t02"
    values: dict[str, Any] = {
        "id": turn,
        "conversation": conversation,
        "turn": turn,
        "query": None,
        "relevant": (Judgement(f"{conversation}/s01/t01#0"),),
    }
    return Probe(**(values | changes))


def test_read_file_with_any_suffix(write: Write) -> None:
    path = write("one.txt")
    library = read_library(path, "lab")
    assert [recording.conversation for recording in library.recordings] == ["one"]
    assert (library.files, library.memories, library.format) == ((path,), "recorded", FORMATS["lab"])


@pytest.mark.parametrize("name", ["locomo", "realmem"])
def test_read_file_of_another_format_names_that_format(sample: Callable[..., Path], tmp_path: Path, name: str) -> None:
    (path,) = sample(name, tmp_path).glob("*.json")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "lab")
    assert str(caught.value).startswith(f"{path}:")
    assert str(caught.value).endswith(f". It was read as format 'lab'; use --format {name}")


def test_read_unreadable_file_suggests_no_format(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("[5]")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "lab")
    assert "--format" not in str(caught.value)


def test_read_folder_orders_files_and_conversations(tmp_path: Path, write: Write) -> None:
    later, sooner = write("a.jsonl", "zebra"), write("b.jsonl", "ant")
    write("inner/c.jsonl")
    (tmp_path / "notes.txt").write_text("no recording", encoding="utf-8")
    (tmp_path / ".hidden.jsonl").write_text("no recording", encoding="utf-8")
    (tmp_path / "folder.jsonl").mkdir()
    library = read_library(tmp_path, "lab")
    assert library.files == (later, sooner)
    assert [recording.conversation for recording in library.recordings] == ["ant", "zebra"]


@pytest.mark.parametrize(("name", "near"), [("LAB", "did you mean 'lab'? "), ("jsonl", ""), ("", "")])
def test_unknown_format_lists_the_known_formats(tmp_path: Path, name: str, near: str) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path, name)
    said, _, names = str(caught.value).partition("known: ")
    assert said == f"unknown format {name!r}; {near}"
    assert names.split(", ") == sorted({*FORMATS, *VARIANTS})
    assert {"lab", "locomo", "openclaw-archived"} < set(names.split(", "))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_format_named_returns_the_format(name: str) -> None:
    assert format_named(name).name == name


@pytest.mark.parametrize(("name", "pattern"), [("lab", "*.jsonl"), ("locomo", "*.json"), ("realmem", "*.json")])
def test_folder_without_matching_file_is_refused(tmp_path: Path, name: str, pattern: str) -> None:
    (tmp_path / "readme.md").write_text("nothing", encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        files_of(tmp_path, FORMATS[name])
    assert str(caught.value) == f"{tmp_path}: this folder has no file that matches {pattern}, as format {name!r} needs"


def test_path_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path / "nowhere", "lab")
    assert str(caught.value) == f"{tmp_path / 'nowhere'}: no such file or folder"


def test_unknown_source_of_memories_is_refused(write: Write) -> None:
    path = write("one.jsonl")
    assert read_library(path, "lab", memories="recorded").memories == "recorded"
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "lab", memories="turns")
    assert str(caught.value) == "format 'lab' has no memories 'turns'; choose from: recorded"


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("lab", "", ": is empty; its first line must be the recording header"),
        ("lab", "[]", ":1: expected one JSON object a line, found a list"),
        (
            "lab",
            '{"kind": "recording", "sch',
            ":1: not JSON: Unterminated string at column 23 (the file seems cut off)",
        ),
        ("locomo", "", ":1: not JSON: Expecting value at column 1 (the file seems cut off)"),
        ("locomo", "[]", ": contains no conversation"),
        ("locomo", "{}", ": expected a list, found an object"),
        ("locomo", '[\n{"sample_id":\n"conv-1",', ":3: not JSON: Expecting property name enclosed in double quotes"),
        ("locomo", "[1]", ": [0]: expected an object, found a number"),
        ("realmem", "", ":1: not JSON: Expecting value at column 1 (the file seems cut off)"),
        ("realmem", "[]", ": expected an object, found a list"),
        (
            "realmem",
            '{"_metadata": {\n"person_name": "A"},\n"dialogues": [',
            ":3: not JSON: Expecting value at column 15",
        ),
    ],
)
def test_unreadable_file_is_refused_with_position(tmp_path: Path, name: str, data: str, problem: str) -> None:
    path = tmp_path / "input"
    path.write_text(data, encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, name)
    assert str(caught.value).startswith(f"{path}{problem}")


def test_conversation_in_two_files_is_refused(tmp_path: Path, write: Write) -> None:
    write("a.jsonl", "same")
    write("b.jsonl", "other")
    write("c.jsonl", "same")
    with pytest.raises(UnusableInput) as caught:
        read_library(tmp_path, "lab")
    assert str(caught.value) == f"{tmp_path}: conversation 'same' occurs twice"


def test_conversation_twice_in_one_file_is_refused(tmp_path: Path) -> None:
    talk = [{"speaker": "Ada", "dia_id": "D1:1", "text": "Hi"}]
    sample = {
        "sample_id": "conv-1",
        "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": talk},
        "qa": [],
    }
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([sample, sample]), encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "locomo")
    assert str(caught.value) == f"{path}: conversation 'conv-1' occurs twice"


def test_conversation_without_turns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text('{"kind": "recording", "schema": "lab.recording.v1", "conversation": "e"}\n', encoding="utf-8")
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "lab")
    assert str(caught.value) == f"{path}: conversation 'e' has no turns, so it cannot be replayed"


def test_with_golden_adds_the_probes(write: Write) -> None:
    golden = GoldenSet((_probe(), _probe(id="asked", turn=None, query="Which?")), ("one note",))
    assert with_golden(read_library(write("one.jsonl"), "lab"), golden).golden == golden


DEAD: list[tuple[str, tuple[Probe, ...], str]] = [
    ("conversation", (_probe("two"),), "probe two/s01/t02 names conversation 'two', which no recording has"),
    (
        "turn",
        (_probe(id="p", turn="one/s01/t09"),),
        "probe p names turn 'one/s01/t09', which the recording does not have",
    ),
    (
        "relevant memory",
        (_probe(relevant=(Judgement("one/s01/t02#0"),)),),
        "probe one/s01/t02 names memory 'one/s01/t02#0', which the recording does not have",
    ),
    (
        "forbidden memory",
        (_probe(forbidden=(Judgement("one/s01/t01#1"),)),),
        "probe one/s01/t02 names memory 'one/s01/t01#1', which the recording does not have",
    ),
    ("probe twice", (_probe(), _probe()), "probe one/s01/t02 occurs twice"),
    (
        "three problems",
        (_probe("two"), _probe(), _probe(relevant=(Judgement("gone"),))),
        "probe two/s01/t02 names conversation 'two', which no recording has (and 2 more; `lab golden lint` lists them)",
    ),
]


@pytest.mark.parametrize(("probes", "problem"), [case[1:] for case in DEAD], ids=[name for name, _, _ in DEAD])
def test_probe_with_unknown_reference_is_refused(write: Write, probes: tuple[Probe, ...], problem: str) -> None:
    path = write("one.jsonl")
    message = rf"^golden set: {re.escape(problem)}$"
    with pytest.raises(UnusableInput, match=message):
        with_golden(read_library(path, "lab"), GoldenSet(probes))
    with pytest.raises(UnusableInput, match=message):
        check_probes(read_library(path, "lab").recordings, probes)


def test_probe_with_memory_of_another_conversation_is_refused(tmp_path: Path, write: Write) -> None:
    write("one.jsonl")
    write("two.jsonl")
    probe = _probe(relevant=(Judgement("two/s01/t01#0"),))
    with pytest.raises(UnusableInput, match=r"names memory 'two/s01/t01#0', which the recording does not have$"):
        with_golden(read_library(tmp_path, "lab"), GoldenSet((probe,)))


def test_check_probes_accepts_matching_probes(write: Write) -> None:
    recordings = read_library(write("one.jsonl"), "lab").recordings
    assert check_probes(recordings, (_probe(), _probe(id="asked", turn=None, query="Which?"))) is None


def test_shipped_recordings_match_their_golden_set(operators: Path) -> None:
    golden = read_golden(operators.parents[1] / "golden" / operators.name)
    library = with_golden(read_library(operators, "lab"), golden)
    assert library.golden == golden
    assert {probe.conversation for probe in golden.probes} == {
        recording.conversation for recording in library.recordings
    }


def test_validation_counts_and_lists_errors(tmp_path: Path, write: Write) -> None:
    write("one.jsonl")
    write(
        *("two.jsonl", None, {"kind": "turn", "turn": "t03", "role": "user", "text": " "}),
        *({"kind": "memory", "text": ""}, {"kind": "turn", "turn": "t04", "role": "assistant", "text": ""}),
    )
    validation = validate(tmp_path, "lab")
    assert validation.conversations == (Counts("one", 1, 2, 1, 0), Counts("two", 1, 4, 2, 0))
    assert validation.errors == ("two: turn two/s01/t03 has no text", "two: memory two/s01/t03#0 has no text")
    assert validation.warnings == ()


def test_validation_finds_duplicate_keys(tmp_path: Path) -> None:
    session = {
        "session_identifier": "A_1:S1",
        "session_uuid": "u1",
        "current_time": "2025-12-23",
        "dialogue_turns": [{"speaker": "Assistant", "content": "Hi", "is_query": False}],
        "extracted_memory": [],
    }
    path = tmp_path / "ada.json"
    value = {"_metadata": {"person_name": "Ada"}, "dialogues": [session, session]}
    path.write_text(json.dumps(value), encoding="utf-8")
    validation = validate(path, "realmem")
    assert validation.errors == ("Ada: turn Ada/u1/0 occurs twice",)
    assert validation.warnings == ("Ada: has no memory, so nothing can be recalled", "Ada: has no user turn")
    assert validation.as_json()["conversations"] == (
        {"conversation": "Ada", "sessions": 1, "turns": 2, "memories": 0, "probes": 0},
    )


def test_shipped_recordings_are_valid(operators: Path) -> None:
    validation = validate(operators, "lab")
    assert (validation.errors, validation.warnings) == ((), ())
    assert all(
        min(conversation.sessions, conversation.turns, conversation.memories) > 0
        for conversation in validation.conversations
    )


def test_validate_warns_of_notes_of_recordings_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    read = native.read

    def noted(path: Path, memories: str) -> list[tuple[Recording, GoldenSet]]:
        ((recording, _),) = read(path, memories)
        return [(replace(recording, notes=("both", "recording only")), GoldenSet(notes=("both", "golden only")))]

    monkeypatch.setattr(native, "read", noted)
    assert validate(write("one.jsonl"), "lab").warnings == ("both", "golden only", "recording only")
