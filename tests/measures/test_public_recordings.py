"""Known scores of search without tiers and of both policies, on real recordings and vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.measures.score import score_run, summarise
from lab.replay.run import run_replay
from lab.runs.request import ReplayRequest
from lab.runs.scores import read_gold

pytestmark = pytest.mark.slow

# One of four personas, because embedding all takes minutes.
PERSONA = "Kenta_Tanaka"


def _means(path: Path, format_name: str, arms: tuple[str, ...], out: Path, **asked: Any) -> dict[str, Any]:
    outcome = run_replay(ReplayRequest(str(path), format_name, arms, **asked), out)
    assert outcome.failures == ()
    arms_of = summarise(score_run(outcome.run), read_gold(outcome.run), outcome.run.arms)["arms"]
    return {arm: one["measures"] | {"n": one["n"]} for arm, one in arms_of.items()}


def test_search_by_words_on_realmem_reproduces_known_scores(realmem: Path, tmp_path: Path) -> None:
    """Embeds nothing, so that a public set is scored wherever all tests run."""
    asked = {"conversation": (PERSONA,), "embedder": "hashing"}
    result = _means(realmem, "realmem", ("bm25", "none"), tmp_path / "run", **asked)
    assert [result[arm]["n"] for arm in ("bm25", "none")] == [153, 153]
    assert [result[arm]["Success@6"] for arm in ("bm25", "none")] == pytest.approx([0.484, 0.0], abs=0.001)


def test_vector_search_on_locomo_reproduces_known_scores(locomo: Path, tmp_path: Path) -> None:
    """Takes half a minute to embed without a cache."""
    result = _means(locomo, "locomo", ("vector",), tmp_path / "run")["vector"]
    assert result["n"] == 855
    expected = {
        "R@1": 0.143,
        "R@5": 0.334,
        "R@10": 0.454,
        "nDCG@10": 0.287,
        "Success@1": 0.156,
        "Success@5": 0.370,
        "Success@10": 0.504,
    }
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=0.01)


def test_arms_on_realmem_reproduce_known_scores(realmem: Path, tmp_path: Path) -> None:
    """One test, because every test process would embed the persona again (half a minute)."""
    arms = ("vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1")
    out = tmp_path / "run"
    result = _means(realmem, "realmem", arms, out, labels="sampled", conversation=(PERSONA,))
    hits = {arm: one["Success@6"] for arm, one in result.items()}
    assert {one["n"] for one in result.values()} == {153}
    # Search without tiers, then both policies.
    untiered = {"vector": 0.471, "bm25": 0.484, "hybrid": 0.490}
    assert {arm: hits[arm] for arm in untiered} == pytest.approx(untiered, abs=0.01)
    assert 0.12 <= hits["tier_first_v1"] <= 0.20
    assert 0.45 <= hits["tier_quota_v1"] <= 0.49
    assert 0.75 <= result["tier_first_v1"]["RepeatRate"] <= 0.85
    assert 0.41 <= result["tier_quota_v1"]["RepeatRate"] <= 0.46
