"""auto_recall and memory_core in whole runs over the shipped sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.base.set_registry import shipped
from lab.base.token_estimate import tokens
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.explain import CAUSES, missed
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from tests.playing import arms_named, keys_of, played

ARMS = ("auto_recall", "memory_core")


def test_memory_core_injects_six_results_and_its_keyword_matches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))
    texts = [f"the harbour pilot of week {number}" for number in range(9)]
    memories = tuple(Memory(f"c/s/0#{n}", text, text, 0, n * 86_400_000) for n, text in enumerate(texts))
    turns = (Turn("c/s/0", 0, "s", "user", "harbour pilot", 9 * 86_400_000),)
    recording = Recording("c", turns, memories)
    (answer,) = played(recording, arms_named("memory_core", max_items=None))
    assert (answer.recall.injected, answer.recall.status, answer.failure) == (6, "ok", None)
    assert answer.recall.context.count("Source: memory/1970-01-") == 6
    assert len(keys_of(answer)) == 9
    (two,) = played(recording, arms_named("memory_core", max_items=2))
    assert two.recall.injected == 2
    (arm,) = arms_named("memory_core", max_items=None)
    (cut,) = played(recording, [arm.with_tokens(64)])
    assert 0 < cut.recall.injected < 6
    assert tokens(cut.recall.context) <= 64


@pytest.mark.parametrize("source", ["given", "captured"])
@pytest.mark.parametrize("name", ["operators", "capture"])
def test_shipped_sets_replay_without_failures(operators: Path, tmp_path: Path, name: str, source: str) -> None:
    path = str(operators if name == "operators" else shipped("datasets", name))
    asked: dict[str, Any] = {"embedder": "hashing", "limit": 2, "source": source}
    outcome = run_replay(ReplayRequest(path, "lab", ARMS, **asked), tmp_path / "run")
    assert outcome.failures == ()
    rows = [row for one in outcome.run.conversations for row in read_table(outcome.run.receipts(one)).to_pylist()]
    assert {row["status"] for row in rows} <= {"ok", "skipped"}
    assert sum(row["injected"] for row in rows) > 50
    if name == "operators" and source == "given":
        lost, counts = missed(outcome.run)
        assert {row.cause for row in lost} <= set(CAUSES) - {"unknown"}
        assert len({row.cause for row in lost}) > 1
        assert all(count.relevant for count in counts.values())
