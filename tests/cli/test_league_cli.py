"""``lab study league``: what it prints and writes, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.systems.registry import BUILT_IN

OPTIONS = ("--format", "lab", "--embedder", "hashing", "--limit", "1", "--tokens", "128,64")


@pytest.fixture
def words(operators: Path) -> tuple[str, ...]:
    """A league over one conversation."""
    return ("study", "league", str(operators), *OPTIONS)


def test_command_prints_who_wins_and_writes_the_page(
    lab: Callable[..., Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    words = (*words, "--arm", "bm25", "--arm", "recency", "--arm", "oracle", "--out", "out")
    done = lab(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert shown.startswith("trial: embedder hashing, which is for tests; 1 conversation, the first ones ")
    assert "At 64 tokens, recency has the highest share of whole hits: " in shown
    assert "With 1 conversation, no difference can be shown; it takes 6." in shown
    assert "whole at own, hit 64 128" in shown
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "operators: bm25" in done.stderr
    found = json.loads(lab(*words, "--json", cwd=tmp_path).stdout)
    assert found["budgets"] == [64, 128]
    assert all((tmp_path / file).is_file() for file in found["files"])
    assert {Path(file).name for file in found["files"]} >= {"league.html", "league.md", "league.csv", "times.csv"}
    page = (tmp_path / "out" / "league.html").read_text()
    assert "--tokens 64,128 --limit 1 --embedder hashing --out DIR" in page
    # Its runs are runs of the lab.
    scored = lab("score", "out/runs/operators/bm25", cwd=tmp_path)
    assert "bm25@64" in scored.stdout


def test_refused_arm_ends_the_command_with_its_proof(
    lab: Callable[..., Any], words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BUILT_IN, "mute", "tests.studies.league.systems:make")
    done = lab(*words, "--arm", "bm25", "--arm", "mute", "--out", "out", cwd=tmp_path)
    assert done.returncode == 4
    assert done.stderr.splitlines()[-1] == (
        "error: 1 arm not ranked: mute: answers: the recall at turn 0 failed: unwritten_item in recall; "
        "relevant: the memory with the words of the prompt is not in the injected text"
    )
    assert "mute is refused" in (tmp_path / "out" / "league.html").read_text()
    proofs = json.loads((tmp_path / "out" / "admission.json").read_text())
    assert {arm["arm"]: arm["passed"] for arm in proofs["arms"]} == {"bm25": True, "mute": False}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("study", "league", "nowhere", "--out", "out"), "set 'nowhere': nowhere: no such file or folder"),
        (
            ("study", "league", "shipped:operators", "--tokens", "few", "--out", "out"),
            "--tokens 'few': expected whole numbers",
        ),
        (
            ("study", "league", "shipped:operators", "--arm", "bm25@64", "--out", "out"),
            "the league sets the budgets itself",
        ),
        (
            ("study", "league", "shipped:operators", "--arm", "bm26", "--out", "out"),
            "unknown arm 'bm26'; did you mean 'bm25'? known: ",
        ),
        (
            ("study", "league", "shipped:operators", "--source", "sky", "--out", "out"),
            "unknown source 'sky'; known: given",
        ),
    ],
)
def test_unusable_arguments_end_with_2(
    lab: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    done = lab(*words, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_league_with_other_arguments_needs_another_folder(
    lab: Callable[..., Any], words: tuple[str, ...], tmp_path: Path
) -> None:
    words = (*words, "--arm", "none", "--out", "out")
    assert lab(*words, cwd=tmp_path).returncode == 0
    done = lab(*words, "--profile", "upstream", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: out: its league cannot be continued; choose another --out, or remove this folder (" in done.stderr
