"""Copies of a conversation under other names: reported by validate and lint, and counted once in comparisons."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lab.cli.main import app
from lab.compare.arms import ablation
from lab.compare.comparable import equal_in
from lab.compare.paired import compare_arms
from lab.gate.policy import read_policy
from lab.gate.verdict import judge
from lab.measures.score import score_run, summarise
from lab.recordings.model import Recording, equal_conversations
from lab.recordings.readers import read_library
from lab.replay.pool import Chosen, choose_turns
from lab.replay.run import run_replay
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

ROOT = Path(__file__).resolve().parents[2]
NAMES = [f"clone-{number}" for number in range(10)]
ARMS = ("tier_first_v1", "tier_quota_v1")
POLICY = """name = "trial"
about = "no worse"
minimum_conversations = 2
[comparison]
baseline = "tier_first_v1"
candidate = "tier_quota_v1"
[[guard]]
measure = "Success@6"
margin = 0.5
"""


@pytest.fixture(scope="module")
def clones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten copies of one shipped conversation and its gold, under different names and dates."""
    folder = tmp_path_factory.mktemp("clones")
    for kind in ("datasets", "golden"):
        text = (ROOT / kind / "traps" / "kiln-room.jsonl").read_text("utf-8")
        (folder / kind / "clones").mkdir(parents=True)
        for number, name in enumerate(NAMES):
            copy = text.replace("kiln-room", name).replace('"time": "2026-', f'"time": "{2026 + number}-')
            (folder / kind / "clones" / f"{name}.jsonl").write_text(copy, "utf-8")
    return folder


@pytest.fixture(scope="module")
def run(clones: Path) -> RunDirectory:
    asked = ReplayRequest(str(clones / "datasets/clones"), "lab", ARMS, embedder="hashing", scope="recorded")
    return run_replay(asked, clones / "run").run


def test_equal_conversations_ignores_names_times_case_and_blanks(clones: Path) -> None:
    read = read_library(clones / "datasets/clones", "lab").recordings
    shouted = tuple(replace(turn, text=f"  {turn.text.upper()}\n") for turn in read[3].turns)
    assert equal_conversations([*read[:3], replace(read[3], turns=shouted), *read[4:]]) == [tuple(NAMES)]
    cut = replace(read[1], turns=read[1].turns[: len(read[1].turns) * 8 // 10])
    assert equal_conversations([read[0], cut]) == []


@pytest.mark.parametrize("name", ["operators", "capture", "traps"])
def test_no_shipped_conversations_are_equal(name: str) -> None:
    assert equal_conversations(read_library(ROOT / "datasets" / name, "lab").recordings) == []


@pytest.mark.parametrize("name", ["beam", "ikat", "locomo", "madial", "realmem", "realtalk"])
def test_no_public_conversations_are_equal(shared: Callable[..., Path], name: str) -> None:
    assert equal_conversations(read_library(shared("data", name), name).recordings) == []


def test_sessions_of_one_template_are_no_copies(shared: Callable[..., Path]) -> None:
    # They share half of their word pairs.
    read = read_library(shared("cases", "10-same-id-not-a-copy", "sessions"), "openclaw").recordings
    assert (len(read), equal_conversations(read)) == (2, [])


def test_equal_conversations_named_as_a_letter_are_copies(clones: Path) -> None:
    original = read_library(clones / "datasets/clones", "lab").recordings[0]
    assert equal_conversations([original, replace(original, conversation="e")]) == [(original.conversation, "e")]


def _edited(recording: Recording, name: str, places: Iterable[int]) -> Recording:
    """Return a copy with other words at some turns."""
    turns = list(recording.turns)
    for place in places:
        turns[place] = replace(turns[place], text=f"{turns[place].text} changed {place}!")
    return replace(recording, conversation=name, turns=tuple(turns))


def test_equal_conversations_with_few_edits_are_copies(clones: Path) -> None:
    original = read_library(clones / "datasets/clones", "lab").recordings[0]
    few = len(original.turns) // 10
    edited = [_edited(original, f"edited {n}", [n]) for n in range(7)]
    far = _edited(original, "far", range(few + 1))
    assert equal_conversations([*edited, far]) == [tuple(f"edited {n}" for n in range(7))]
    # A copy of a copy differs from the original in more, and is in its group.
    third = _edited(edited[0], "twice edited", range(1, few + 1))
    assert equal_conversations([original, edited[0], third]) == [(original.conversation, "edited 0", "twice edited")]


@pytest.mark.parametrize(("turns", "copies"), [(1, 0), (2, 0), (3, 0), (4, 2), (9, 2), (19, 2)])
def test_equal_conversations_one_changed_turn_of_few(clones: Path, turns: int, copies: int) -> None:
    original = read_library(clones / "datasets/clones", "lab").recordings[0]
    short = replace(original, turns=original.turns[:turns])
    assert len(equal_conversations([short, _edited(short, "edited", [0])])) == copies // 2


def test_draw_takes_no_turn_of_a_copy(clones: Path) -> None:
    read = read_library(clones / "datasets/clones", "lab").recordings
    drawn = choose_turns(read, Chosen(number=60), 2, 0)
    assert [name for name, keys in drawn.keys.items() if keys] == ["clone-0"]
    assert list(drawn.sizes()) == ["clone-0"]
    assert drawn.as_json()["not_eligible"]["in a copy of another conversation"] == 9 * drawn.eligible["clone-0"]
    # Of copies, the one with most turns that can be judged is taken.
    bare = [replace(read[0], memories=()), *read[1:]]
    assert list(choose_turns(bare, Chosen(number=60), 2, 0).sizes()) == ["clone-1"]
    # A turn that is named is taken.
    other = next(turn.key for turn in read[1].turns[::-1] if turn.role == "user")
    assert choose_turns(read, Chosen((other,)), 2, 0).keys["clone-1"] == [other]


def test_validate_and_lint_name_conversations_that_are_equal(clones: Path) -> None:
    cli = CliRunner()
    words = ["recordings", "validate", str(clones / "datasets/clones"), "--format", "lab"]
    done = cli.invoke(app, words)
    said = " ".join(done.stdout.split())
    assert (done.exit_code, "clone-9: these conversations have the same turns, or nearly so" in said) == (0, True)
    assert cli.invoke(app, [*words, "--strict"]).exit_code == 1
    done = cli.invoke(app, ["golden", "lint", str(clones / "golden/clones")])
    said = " ".join(done.stdout.split())
    assert (done.exit_code, "clone-9 have the same turns, or nearly so; judge only one of them" in said) == (1, True)
    assert "1 conversation: a two-sided sign-flip test needs 6" in said


@pytest.mark.slow
def test_compare_counts_copies_as_one_conversation(run: RunDirectory) -> None:
    found = compare_arms(run, *ARMS)
    assert {one.conversations for one in found.differences} == {1}
    assert all(one.estimate.low is None for one in found.differences)
    assert any("count as one" in note for note in found.embedder)


def test_ablation_counts_copies_as_one_conversation(run: RunDirectory) -> None:
    scores = score_run(run)
    means = summarise(scores, read_gold(run), run.arms)["arms"]
    (_, one), (_, copied) = ablation(scores, means, 6), ablation(scores, means, 6, equal_in(run))
    # All copies have equal differences.
    assert one.changes["Success@6"].conversations == 10
    assert copied.changes["Success@6"].conversations == 1


def test_gate_over_ten_copies_is_inconclusive(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(POLICY)
    verdict = judge(read_policy(str(tmp_path / "policy.toml")), run)
    assert verdict.status == "inconclusive"
    assert [line.conversations for line in verdict.lines] == [1]
    assert any("count as one" in note for note in verdict.embedder)


def test_compare_without_copies_is_unchanged(tmp_path: Path) -> None:
    for kind in ("datasets", "golden"):
        shutil.copytree(ROOT / kind / "traps", tmp_path / kind / "traps")
    asked = ReplayRequest(str(tmp_path / "datasets/traps"), "lab", ARMS, embedder="hashing", scope="recorded")
    run = run_replay(asked, tmp_path / "run").run
    found = compare_arms(run, *ARMS)
    assert max(one.conversations for one in found.differences) == len(
        list((ROOT / "datasets" / "traps").glob("*.jsonl"))
    )
    assert found.embedder == ()
