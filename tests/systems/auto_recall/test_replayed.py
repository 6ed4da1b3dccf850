"""auto_recall and memory_core in whole runs: shipped sets, equal bytes everywhere, and killed runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.recordings.model import Memory, Recording, Turn
from lab.replay.missed import CAUSES, missed
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.runs.tables import read_table
from lab.set_registry import shipped
from lab.token_estimate import tokens
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
    asked: dict[str, Any] = {"embedder": "hashing", "limit": 3, "source": source}
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


@pytest.mark.slow
@pytest.mark.parametrize("source", ["given", "captured"])
def test_receipts_and_writes_are_equal_over_processes_and_arm_order(
    operators: Path, tmp_path: Path, source: str
) -> None:
    """Other hash seeds, two workers and another order of the arms change no byte of an arm."""
    results = []
    for seed, order, jobs in (("1", ARMS, "1"), ("2", ARMS, "2"), ("3", ARMS[::-1], "1")):
        out = tmp_path / f"run-{seed}"
        words = [word for name in order for word in ("--arm", name)]
        asked = ["replay", operators, "--format", "lab", *words, "--embedder", "hashing", "--limit", "3"]
        env = os.environ | {"PYTHONHASHSEED": seed, "LAB_CACHE_DIR": str(tmp_path / f"cache-{seed}")}
        command = [sys.executable, "-m", "lab", *asked, "--source", source, "--jobs", jobs, "--out", out]
        subprocess.run(command, check=True, capture_output=True, env=env)
        results.append(
            {
                (path.relative_to(out).as_posix(), arm): [
                    row for row in read_table(path).to_pylist() if row["arm"] == arm
                ]
                for kind in ("receipts", "writes")
                for path in sorted((out / kind).glob("*"))
                for arm in ARMS
            }
        )
    assert results[0] == results[1] == results[2]
    assert sum(map(len, results[0].values())) > 200


@pytest.mark.slow
def test_killed_run_resumes_to_the_same_bytes(operators: Path) -> None:
    """Killed in the middle of a conversation, at three times; the same command then ends like an unbroken one."""
    trial = Path(__file__).resolve().parents[2] / "trials" / "kills.py"
    arms = [word for name in ARMS for word in ("--arm", name)]
    asked = ["replay", str(operators), "--format", "lab", *arms, "--embedder", "hashing"]
    words = [sys.executable, "-m", "lab", *asked, "--source", "captured", "--limit", "3", "--out", "OUT"]
    ended = subprocess.run(
        [sys.executable, trial, "--kills", "3", "--", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("3 kills in ")
