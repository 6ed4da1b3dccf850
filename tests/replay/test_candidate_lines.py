"""From a transcript to judged captures: lines become candidates, a pool, judgements and a golden set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.cli.judge_desk import Desk
from lab.cli.main import app
from lab.golden.files import read_golden
from lab.golden.judging import open_judging
from lab.golden.lint import lint
from lab.golden.pool import read_pool
from lab.recordings.readers import read_library
from lab.replay.pool import make_capture_pool, material
from lab.runs.request import ReplayRequest

LINES = (
    {"kind": "recording", "schema": "lab.recording.v1", "conversation": "kiln", "language": "en", "title": "A kiln"},
    {"kind": "session", "session": "s1", "time": "2026-03-02T09:12:00+01:00", "scope": "kiln"},
    {
        "kind": "turn",
        "turn": "t1",
        "role": "user",
        "text": "Morning!\nFrom now on fire on Tuesdays.\npassword: plum-jam",
    },
    {"kind": "memory", "text": "The kiln fires on Tuesdays.", "category": "decision"},
    {"kind": "turn", "turn": "t2", "role": "assistant", "text": "Noted. Tuesdays it is."},
    {"kind": "turn", "turn": "t3", "role": "user", "text": "我決定星期二燒窯。明天提醒我買釉料！好嗎？"},
)


def lab(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", ["lab", *words])
    app(standalone_mode=False)


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    source = tmp_path / "kiln.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in LINES), encoding="utf-8")
    lab(
        monkeypatch,
        "recordings",
        "convert",
        str(source),
        "--format",
        "lab",
        "--candidates",
        "--out",
        str(tmp_path / "o"),
    )
    return tmp_path / "o" / "datasets" / "lab"


def test_each_line_or_sentence_is_a_candidate_of_its_turn(converted: Path) -> None:
    (recording,) = read_library(converted, "lab").recordings
    assert [(memory.key, memory.text) for memory in recording.memories] == [
        ("kiln/s1/t1#0", "Morning!"),
        ("kiln/s1/t1#1", "From now on fire on Tuesdays."),
        ("kiln/s1/t1#2", "password: plum-jam"),
        ("kiln/s1/t2#0", "Noted."),
        ("kiln/s1/t2#1", "Tuesdays it is."),
        ("kiln/s1/t3#0", "我決定星期二燒窯。"),
        ("kiln/s1/t3#1", "明天提醒我買釉料！"),
        ("kiln/s1/t3#2", "好嗎？"),
    ]
    assert [memory.category for memory in recording.memories[5:7]] == ["decision", "todo"]
    assert {memory.scope for memory in recording.memories} == {"kiln"}


def test_judged_candidates_become_captures(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pool.jsonl"
    lab(monkeypatch, "golden", "pool", str(converted), "--format", "lab", "--captures", "--out", str(path))
    pool = read_pool(path)
    assert pool.captures
    assert [len(turn.items) for turn in pool.turns] == [3, 2, 3]
    judging = open_judging(pool, tmp_path / "gold.jsonl", "ann")
    recordings = material(pool)
    desk = Desk(judging, recordings)
    screen = "\n".join(text for _, text in desk.lines(80, 24))
    assert "f never store" in screen
    desk.press("?")
    assert any("never store: a password" in text for _, text in desk.lines(80, 24))
    for key in ("escape", "0", "2", "f", "x", "2", "1", "0"):
        desk.press(key)
    golden = read_golden(tmp_path / "gold.jsonl")
    assert not golden.probes
    assert golden.kept("kiln") == {
        "kiln/s1/t1#0": 0,
        "kiln/s1/t1#1": 2,
        "kiln/s1/t1#2": -1,
        "kiln/s1/t2#0": 0,
        "kiln/s1/t2#1": 0,
        "kiln/s1/t3#0": 2,
        "kiln/s1/t3#1": 1,
        "kiln/s1/t3#2": 0,
    }
    assert lint(golden, list(recordings.values())).errors == ()
    assert open_judging(pool, tmp_path / "gold.jsonl", "ann").progress()["done"] == 3


def test_recordings_without_candidates_and_options_for_arms_are_refused(
    tmp_path: Path, converted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.jsonl"
    bare.write_text("".join(json.dumps(line) + "\n" for line in (*LINES[:3], LINES[4])), encoding="utf-8")
    with pytest.raises(UnusableInput, match="no memory belongs to a turn"):
        make_capture_pool(ReplayRequest(str(bare), "lab", ()))
    words = ("golden", "pool", str(converted), "--format", "lab", "--captures", "--every", "2")
    with pytest.raises(UnusableInput, match="give no arms"):
        lab(monkeypatch, *words, "--out", str(tmp_path / "p.jsonl"))
