"""What systems embed of their own is found before a replay, embedded in bulk, and changes no result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from lab.base.set_registry import shipped
from lab.embedding.embedder import DOCUMENT, HashingEmbedder, Role, SentenceTransformerEmbedder
from lab.recordings.model import MUST, Memory, Recording, Turn
from lab.replay import sources as sources_module
from lab.replay.loop import replay
from lab.replay.plan import Plan, make_plan
from lab.replay.run import run_replay
from lab.replay.sources import open_sources, play_of, prepare, rehearsed, tools_of
from lab.runs.request import ReplayRequest
from tests.playing import arms_named, play

if TYPE_CHECKING:
    import numpy as np

DAY = 86_400_000
# Lines of a recording that are enough for chunks of many lengths.
BEGINNING = 30
BUDGETS = ("memory_core", "memory_core@64", "memory_core@256", "auto_recall", "auto_recall@256")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def grown() -> Recording:
    """Notes of two days, a curated one, one that is forgotten, and the output of a tool."""
    memories = (
        Memory("c#0", "the harbour pilot boards at six", "", 0, 0),
        Memory("c#1", "the crane is out of order", "", 2, 1, visible_until=4),
        Memory("c#2", "never moor at pier nine", "", 2, 2, label=MUST),
        Memory("c#3", "the harbour pilot now boards at seven", "", 4, DAY),
    )
    memories = tuple(replace(memory, index_text=memory.text) for memory in memories)
    said = [
        "when does the harbour pilot board?",
        "tide table: 06:10 4.2 m",
        "which pier is closed?",
        "ok",
        "and today?",
    ]
    roles = ["user", "tool", "user", "assistant", "user"]
    turns = [
        Turn(f"c/s/{seq}", seq, "s", role, text, seq * DAY // 4)
        for seq, (role, text) in enumerate(zip(roles, said, strict=True))
    ]
    return Recording("c", tuple(turns), memories)


def test_a_rehearsal_yields_each_state_of_a_growing_file() -> None:
    arms = arms_named("memory_core", max_items=None)
    asked = play(grown(), recall_turns="user")
    texts = rehearsed(asked, arms, [replace(arm.describe(), writes=False) for arm in arms])
    # A file is read when a prompt is searched with; the crane is forgotten before the last one.
    assert texts == (
        "- the harbour pilot boards at six",
        "tide table: 06:10 4.2 m\n",
        "- the harbour pilot boards at six\n- the crane is out of order",
        "- never moor at pier nine",
        "- the harbour pilot now boards at seven",
    )


def test_budgets_are_rehearsed_once_and_other_arms_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    arms = arms_named("hybrid@64", "rsclaw", "memory_core", "memory_core@64", "auto_recall", "auto_recall@64")
    opened: list[str] = []
    for name, arm in zip(("memory_core", "auto_recall"), (arms[2], arms[4]), strict=True):
        before = type(arm).rehearse
        monkeypatch.setattr(
            type(arm),
            "rehearse",
            lambda self, *given, _before=before, _name=name: opened.append(_name) or _before(self, *given),
        )
    asked = play(grown(), recall_turns="user")
    assert rehearsed(asked, arms, [replace(arm.describe(), writes=False) for arm in arms])
    assert opened == ["memory_core", "auto_recall"]
    assert not rehearsed(asked, arms[:2], [arm.describe() for arm in arms[:2]])


class Counting(HashingEmbedder):
    """Records the texts of each call."""

    calls: list[list[str]]

    def encode(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        self.calls.append(list(texts))
        return super().encode(texts, role)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    calls: list[list[str]] = []
    monkeypatch.setattr(Counting, "calls", calls, raising=False)
    monkeypatch.setattr("lab.replay.plan.embedder_named", lambda _: Counting())
    return calls


def plan_of(path: Path, arms: Sequence[str], **options: Any) -> Plan:
    return make_plan(ReplayRequest(str(path), "lab", tuple(arms), limit=2, **options))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "source"), [("operators", "given"), ("capture", "captured")])
def test_a_replay_embeds_nothing_that_was_not_prepared(monkeypatch: pytest.MonkeyPatch, name: str, source: str) -> None:
    calls = counted(monkeypatch)
    # What auto_recall injects is part of its transcripts, so it is only known in the replay.
    plan = plan_of(shipped("datasets", name), BUDGETS if source == "given" else BUDGETS[:3], source=source)
    sources = open_sources(plan)
    assert prepare(plan, plan.recordings, sources, lambda _: None) == sum(map(len, calls))
    before = len(calls)
    assert before < 8  # parts of a bulk
    for recording in plan.recordings:
        answers = list(
            replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms, infos=plan.infos)
        )
        assert {answer.recall.status for answer in answers} <= {"ok", "skipped"}
        assert any(answer.recall.injected for answer in answers)
    assert calls[before:] == []
    monkeypatch.setattr(sources_module, "rehearsed", lambda *_: ())
    alone = open_sources(plan)
    recording = plan.recordings[0]
    assert len(sources.rehearsed[recording.conversation]) > 10
    assert (
        sources_module._embedded_of(plan, recording, alone)[DOCUMENT]
        != sources_module._embedded_of(plan, recording, sources)[DOCUMENT]
    )


@pytest.mark.slow
@pytest.mark.model
def test_receipts_are_equal_whether_chunks_are_embedded_in_bulk_or_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the real embedder, and over both ways the same bytes."""
    whole = min(shipped("datasets", "capture").glob("*.jsonl"))
    beginning = whole.read_text("utf-8").splitlines(keepends=True)[:BEGINNING]
    (tmp_path / whole.name).write_text("".join(beginning), "utf-8")
    asked = ReplayRequest(str(tmp_path / whole.name), "lab", ("memory_core@64", "auto_recall"))
    found: list[list[bytes]] = []
    sizes: list[list[int]] = []
    encode = SentenceTransformerEmbedder.batches
    for way in ("bulk", "alone"):
        monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / f"cache-{way}"))
        calls: list[int] = []

        def batches(self: Any, texts: Sequence[str], role: Role = DOCUMENT, calls: list[int] = calls) -> Any:
            calls.append(len(texts))
            return encode(self, texts, role)

        monkeypatch.setattr(SentenceTransformerEmbedder, "batches", batches)
        if way == "alone":
            monkeypatch.setattr(sources_module, "rehearsed", lambda *_: ())
        run = run_replay(asked, tmp_path / way).run
        found.append([run.receipts(one).read_bytes() for one in run.conversations])
        sizes.append(calls)
    assert found[0] == found[1]
    assert len(sizes[0]) == 1
    assert len(sizes[1]) > 5
    assert sum(sizes[0]) == sum(sizes[1])
