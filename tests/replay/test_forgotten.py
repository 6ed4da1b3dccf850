"""Forgotten memories: no arm recalls them afterwards, with either store, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.base.errors import UnusableInput
from lab.golden.lint import probe_problems
from lab.golden.model import Judgement, Probe
from lab.recordings.model import LABELS, Memory, Recording, Turn
from lab.recordings.readers import read_library
from lab.replay.explain import explain
from lab.replay.loop import Answered
from lab.replay.receipts import SafetyChecks
from lab.replay.run import run_replay
from lab.retrieval.retrievers import STORES
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from lab.studies.saturation import saturation
from tests.playing import arms_named, keys_of, played

SPANS = ((0, None), (0, 2), (1, 4), (2, 2), (2, None), (3, 5), (3, None), (5, 6))
ARMS = (
    "tier_first_v1",
    "tier_quota_v1",
    "vector",
    "bm25",
    "hybrid",
    "recency",
    "random",
    "oracle",
    "seed_full",
    "engine",
)
TURNS = tuple(Turn(f"c/s/{seq}", seq, "s", "user", f"crate {seq} of pears", 1000 + seq) for seq in range(6))
MEMORIES = tuple(
    Memory(
        f"c/s#{number}",
        text := f"pears in crate {number}",
        text,
        born,
        number,
        category=("fact", "preference", "decision")[number % 3],
        label=LABELS[number % 2],
        hard_rule=number == 2,
        visible_until=until,
    )
    for number, (born, until) in enumerate(SPANS)
)
RECORDING = Recording("c", TURNS, MEMORIES)
GOLD = tuple(Judgement(memory.key) for memory in MEMORIES)
AFTER = Probe("c/after", "c", None, "pears", GOLD)


def answers(store: str, names: tuple[str, ...], recording: Recording = RECORDING) -> list[Answered]:
    return played(recording, arms_named(*names), [AFTER], store=store)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize("store", STORES)
def test_replay_forgotten_memory_is_recalled_by_no_arm(store: str) -> None:
    safety_checks = SafetyChecks(RECORDING)
    seen: set[str] = set()
    for answer in answers(store, ARMS):
        there = {memory.key for memory in MEMORIES if memory.is_visible_at(answer.point.seq)}
        result = {*keys_of(answer), *answer.recall.pinned}
        assert result <= there, (answer.arm, answer.point.seq)
        assert answer.visible == len(there)
        assert answer.hard_rules == ("c/s#2" in there)
        assert safety_checks.check(answer.recall, answer.point.seq).future == 0
        seen |= result
        if answer.arm in ("vector", "recency", "hybrid", "random", "oracle"):
            # The oracle depends only on the probe.
            assert result == (there if answer.arm != "oracle" or answer.point.probe else set())
    assert seen == {memory.key for memory in MEMORIES} - {"c/s#3"}


def test_replay_forgotten_memory_stores_agree() -> None:
    exact, lance = (answers(store, ARMS) for store in STORES)
    for mine, theirs in zip(exact, lance, strict=True):
        assert mine.recall.items == theirs.recall.items, (mine.arm, mine.point.seq)
        assert mine.recall.context == theirs.recall.context


@pytest.mark.parametrize("store", STORES)
def test_replay_forgotten_memory_equals_one_never_stored(store: str) -> None:
    left = replace(RECORDING, memories=tuple(memory for memory in MEMORIES if memory.visible_until is None))
    names = ("vector", "bm25", "hybrid")
    alone = [one.recall.items for one in answers(store, names, left) if one.point.seq == 6]
    assert [one.recall.items for one in answers(store, names) if one.point.seq == 6] == alone


def test_safety_checks_forgotten_memory_counts_as_future() -> None:
    (first, *_) = answers("exact", ("recency",))
    assert {"c/s#0", "c/s#1"} == set(keys_of(first))
    assert [SafetyChecks(RECORDING).check(first.recall, seq).future for seq in range(4)] == [0, 0, 1, 1]


def _recording(folder: Path) -> Path:
    said_at = [("t1", "crate one"), ("t2", "crate two"), ("t3", "crate three of pears")]
    lines = ['{"kind": "recording", "schema": "lab.recording.v1", "conversation": "c"}']
    lines.append('{"kind": "session", "session": "s", "time": "2026-03-01T09:00:00+00:00"}')
    for name, text in said_at:
        lines.append(f'{{"kind": "turn", "turn": "{name}", "role": "user", "text": "{text}"}}')
        after = ', "forgotten_after": "c/s/t2"' if name == "t1" else ""
        lines.append(f'{{"kind": "memory", "text": "pears of {name}", "importance_label": "must_remember"{after}}}')
    folder.mkdir()
    path = folder / "c.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_cached_candidates_leave_out_forgotten_memories(tmp_path: Path) -> None:
    path = _recording(tmp_path / "in")
    request = ReplayRequest(str(path), "lab", ("hybrid", "engine"), embedder="hashing", recall_turns="all")
    first, again = (run_replay(request, tmp_path / out).run for out in ("one", "two"))
    assert first.receipts("c").read_bytes() == again.receipts("c").read_bytes()
    # Another arm queries a live store for candidates that are not cached.
    other = run_replay(replace(request, arms=("hybrid", "engine", "vector")), tmp_path / "three").run
    rows = read_table(other.receipts("c")).to_pylist()
    by_turn = {(row["arm"], row["turn"]): row["item_key"] for row in rows}
    assert by_turn["vector", "c/s/t2"] == ["c/s/t1#0"]
    assert by_turn["vector", "c/s/t3"] == ["c/s/t2#0"]
    assert not any(row["future"] for row in rows)


def test_explain_forgotten_memory_is_named(tmp_path: Path) -> None:
    path = _recording(tmp_path / "in")
    golden = tmp_path / "gold.jsonl"
    golden.write_text(
        '{"kind": "probe", "turn": "c/s/t3", "relevant": [{"memory": "c/s/t1#0", "grade": 1, "reason": "-"}]}\n',
        "utf-8",
    )
    request = ReplayRequest(str(path), "lab", ("hybrid",), embedder="hashing", golden=str(golden))
    run = run_replay(request, tmp_path / "run").run
    assert explain(run, "c/s/t3", "hybrid").explained.reasons == {"c/s/t1#0": "it had been forgotten"}
    assert '"visible": false' in (run.path / "golden.jsonl").read_text("utf-8")


@pytest.mark.slow
def test_saturation_forgotten_memory_is_not_recalled(tmp_path: Path) -> None:
    path = _recording(tmp_path / "in")
    golden = tmp_path / "gold.jsonl"
    golden.write_text(
        '{"kind": "probe", "turn": "c/s/t3", "relevant": [{"memory": "c/s/t1#0", "grade": 1, "reason": "-"}]}\n',
        "utf-8",
    )
    points = saturation(ReplayRequest(str(path), "lab", (), golden=str(golden), embedder="hashing"), seeds=1)
    assert points
    assert all(point.hit == 0.0 for point in points)


@pytest.mark.parametrize(
    ("turn", "problem"),
    [("c/s/t9", "forgotten_after 'c/s/t9' is not a turn of this recording"), ("c/s/t1", None), ("", "is not a turn")],
)
def test_reader_end_of_memory_is_validated(tmp_path: Path, turn: str, problem: str | None) -> None:
    path = _recording(tmp_path / "in")
    path.write_text(path.read_text("utf-8").replace("c/s/t2", turn), "utf-8")
    if problem is None:
        assert read_library(path, "lab").recordings[0].memories[0].visible_until == 1
        return
    with pytest.raises(UnusableInput) as caught:
        read_library(path, "lab")
    assert problem in str(caught.value)
    assert str(caught.value).startswith(f"{path}:4: ")


def test_reader_end_before_creation_is_refused(tmp_path: Path) -> None:
    path = _recording(tmp_path / "in")
    text = path.read_text("utf-8")
    late = '"text": "pears of t3", "importance_label": "must_remember"'
    path.write_text(text.replace(late, f'{late}, "forgotten_after": "c/s/t1"'), "utf-8")
    with pytest.raises(UnusableInput, match=r":8: forgotten_after 'c/s/t1' comes before the memory exists"):
        read_library(path, "lab")


def test_golden_forgotten_memory_is_known() -> None:
    probe = Probe("c/s/5", "c", "c/s/5", None, (Judgement("c/s#1"),))
    assert probe_problems([RECORDING], [probe]) == []
