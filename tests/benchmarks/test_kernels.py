"""Benchmarks of the kernels of a turn and of scoring. None fails on a time.

Run with ``nox -s kernels``. What whole turns cost is in ``test_turn.py``, what they cost beside other things in
``ratios/``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from lab.measures.score import score_run
from lab.recordings.model import LABELS, MUST, NICE
from lab.replay.run import run_replay
from lab.retrieval.contract import Candidate, Filter
from lab.retrieval.exact import BAND, Lane, Members
from lab.retrieval.tokens import ScanWords, TextSettings, Tokens
from lab.runs.directory import RunDirectory
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.block import Budget, Slot, pack, pack_well_formed
from lab.systems.openclaw.select.outcome import recall_plans
from lab.systems.openclaw.select.policies import tier_first_v1, tier_quota_v1

CANDIDATES, TEXTS = 12, 500


def candidates(tier: str) -> list[Candidate]:
    return [
        Candidate(engine_id(f"{tier} {rank}"), 2 / (60 + rank), rank, rank, rank, 0.5)
        for rank in range(1, CANDIDATES + 1)
    ]


def texts(count: int, seed: int) -> list[str]:
    random = np.random.default_rng(seed)
    return [" ".join(f"walk{word}ing" for word in random.integers(0, 900, 20)) + f" {seed} {at}" for at in range(count)]


def slots() -> list[Slot]:
    """Twice what the budget holds."""
    return [
        Slot(engine_id(str(at)), at, "fact", "nice_to_have", f"what was said <{at}> & " + "some words " * 50)
        for at in range(6)
    ]


@pytest.mark.parametrize("policy", ["tier_first_v1", "tier_quota_v1"])
def test_select(benchmark: BenchmarkFixture, policy: str) -> None:
    """Six of three tiers' candidates."""
    settings = EngineConfig().auto_recall
    plans = recall_plans(unknown_fallback=True)
    found = {plan.tier: candidates(str(plan.tier)) for plan in plans}

    def select() -> int:
        if policy == "tier_first_v1":
            return len(tier_first_v1(plans, 6, lambda plan: found[plan.tier]).picked)
        return len(tier_quota_v1(plans, 6, settings.quota, lambda plan: found[plan.tier], strict_caps=True).picked)

    assert benchmark(select) == 6


@pytest.mark.parametrize("kernel", [pack, pack_well_formed])
def test_pack(benchmark: BenchmarkFixture, kernel: object) -> None:
    """Pack six memories into a budget for three."""
    assert callable(kernel)
    packed = benchmark(lambda: kernel(slots(), Budget()))
    assert 0 < len(packed.kept) < 6
    assert len(packed.context) <= Budget().max_chars


@pytest.mark.parametrize("count", [1_000, 10_000, 100_000])
@pytest.mark.parametrize("masked", [False, True])
def test_top_k(benchmark: BenchmarkFixture, count: int, masked: bool) -> None:
    """Select the twelve best of an approximately scored lane."""
    random = np.random.default_rng(5)
    rough = random.random(count).astype(np.float32)
    mask = random.random(count) < (0.3 if masked else 1.1)
    labels = np.where(mask, LABELS.index(MUST), LABELS.index(NICE)).astype(np.int8)
    members, where = Members(np.zeros(count, np.int32), labels, {}), Filter(None, (MUST,) if masked else None)

    def exact(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return 1 - rough[places], rough[places]

    lane = Lane(rough, BAND, exact, lambda number, _: number)
    hits = benchmark(lambda: lane.best(members, where, 12))
    allowed = np.flatnonzero(mask)
    assert [hit.row for hit in hits] == allowed[np.argsort(rough[allowed], kind="stable")][:12].tolist()


def test_tokenise(benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokenise uncached texts as LanceDB does."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    words = Tokens(TextSettings())
    seeds = iter(range(1_000))

    def fresh() -> tuple[tuple[list[str]], dict[str, object]]:
        return (texts(TEXTS, next(seeds)),), {}

    assert benchmark.pedantic(words.prepare, setup=fresh, rounds=5) == TEXTS


def test_cached_tokens(benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokenise cached texts."""
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    words, documents = Tokens(TextSettings()), texts(TEXTS, 0)
    words.prepare(documents)
    assert benchmark(lambda: words.of(documents))[0][0].startswith("walk")


def test_scan_words(benchmark: BenchmarkFixture) -> None:
    """Tokenise as the public plugin does."""
    documents = texts(TEXTS, 0)
    assert len(benchmark(lambda: ScanWords().of(documents))[0]) == 22


@pytest.fixture(scope="module")
def run(operators: Path, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """Replay a shipped conversation with both policies."""
    request = ReplayRequest(str(operators), "lab", ("tier_first_v1", "tier_quota_v1"), limit=1, embedder="hashing")
    return run_replay(request, tmp_path_factory.mktemp("kernels") / "run").run


def test_measures(benchmark: BenchmarkFixture, run: RunDirectory) -> None:
    """Score a run: read receipts, compute all measures, write scores."""
    assert len(benchmark(lambda: score_run(run))) > 1_000
