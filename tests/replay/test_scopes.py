"""Scopes of recordings and stores: as they are by default, noted, and validated on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.base.errors import UnusableInput
from lab.cli.main import app
from lab.recordings.readers import read_library
from lab.replay.memories_from import read_stored
from lab.replay.scopes import LISTED, scope_notes, scopes_of, valid_scope, with_valid_scopes

ROOT = Path(__file__).resolve().parents[2]
LINES = (
    {"kind": "recording", "schema": "lab.recording.v1", "conversation": "c"},
    {"kind": "session", "session": "s", "time": "2026-03-02T09:10:00+08:00", "scope": "My Project"},
    {"kind": "turn", "turn": "t1", "role": "user", "text": "hello"},
    {"kind": "memory", "text": "a", "scope": "gateway"},
    {"kind": "memory", "text": "b", "scope": "專案"},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "set").mkdir()
    text = "\n".join(json.dumps(line) for line in LINES)
    (tmp_path / "set" / "c.jsonl").write_text(text, "utf-8")
    return tmp_path / "set"


@pytest.mark.parametrize(
    ("mode", "scopes"),
    [
        ("raw", ["My Project", "gateway", "專案"]),
        ("strict", ["global", "gateway", "global"]),
        ("normalize", ["my-project", "gateway", "global"]),
    ],
)
def test_scopes_under_each_mode(folder: Path, mode: str, scopes: list[str]) -> None:
    library = with_valid_scopes(read_library(folder, "lab"), mode)
    assert scopes_of(library.recordings) == scopes
    notes = library.recordings[0].notes
    assert len(notes) == (mode != "raw")
    assert all(f"'My Project' is now {scopes[0]!r}" in note for note in notes)


def test_shipped_sets_have_valid_scopes_but_for_two_traps() -> None:
    operators, traps = (read_library(ROOT / "datasets" / name, "lab") for name in ("operators", "traps"))
    assert scope_notes(scopes_of(operators.recordings)) == ()
    assert with_valid_scopes(operators, "strict").recordings == operators.recordings
    # The arrows would end the receipt's comment in the prompt if they were not escaped.
    notes = scope_notes(scopes_of(traps.recordings))
    assert [note.partition(" (")[0] for note in notes] == ["scope 'bell --> wall'", "scope 'pond --> shade'"]


def test_scope_notes_are_bounded() -> None:
    notes = scope_notes([f"A{number}" for number in range(9)] * 2)
    assert len(notes) == LISTED + 1
    assert "'A0' (2 times)" in notes[0]
    assert notes[-1] == "4 more scopes are not valid"
    assert valid_scope("A0", "strict") == "a0"


def test_unknown_mode_is_refused(folder: Path) -> None:
    with pytest.raises(UnusableInput, match="unknown scopes 'lenient'; known: raw, normalize, strict"):
        with_valid_scopes(read_library(folder, "lab"), "lenient")


def test_validate_notes_and_convert_writes_valid_scopes(folder: Path, tmp_path: Path) -> None:
    cli = CliRunner()
    report = json.loads(cli.invoke(app, ["recordings", "validate", str(folder), "--format", "lab", "--json"]).stdout)
    assert [note.split(" ")[1] for note in report["notes"]] == ["'My", "'專案'"]
    made = [
        "recordings",
        "convert",
        str(folder),
        "--format",
        "lab",
        "--out",
        str(tmp_path / "new"),
        "--scopes",
        "strict",
    ]
    assert cli.invoke(app, made).exit_code == 0
    (recording,) = read_library(tmp_path / "new" / "datasets" / "lab", "lab").recordings
    assert set(scopes_of([recording])) == {"global", "gateway"}


def test_store_notes_its_invalid_scopes(tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    row = {
        "id": "1",
        "text": "a",
        "createdAt": 1,
        "category": "fact",
        "importance_label": "unknown",
        "trust_tier": "user",
    }
    path.write_text(json.dumps(row | {"scope": "My Project", "source_kind": "web", "lang": "zh"}), "utf-8")
    stored = read_stored(path)
    assert stored.memories[0].scope == "My Project"
    assert (stored.memories[0].source_kind, stored.memories[0].lang) == ("web", "zh")
    assert any("scope 'My Project' (1 times) is not valid" in note for note in stored.notes)
