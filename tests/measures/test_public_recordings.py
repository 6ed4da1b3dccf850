"""Real recordings, real vectors: what untiered search and both policies are known to score on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.measures.score import score_run, summarise
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.runs.gold import read_gold

pytestmark = pytest.mark.slow

# One of the four personas: embedding all takes minutes.
PERSONA = "Kenta_Tanaka"


def _means(path: Path, format_name: str, arms: tuple[str, ...], out: Path, **asked: Any) -> dict[str, Any]:
    outcome = run_replay(ReplayRequest(str(path), format_name, arms, **asked), out)
    assert outcome.failures == ()
    arms_of = summarise(score_run(outcome.run), read_gold(outcome.run), outcome.run.arms)["arms"]
    return {arm: one["measures"] | {"n": one["n"]} for arm, one in arms_of.items()}


def test_vector_search_over_locomo_scores_what_others_measured(locomo: Path, tmp_path: Path) -> None:
    """Half a minute of embedding where no vectors are cached."""
    found = _means(locomo, "locomo", ("vector",), tmp_path / "run")["vector"]
    assert found["n"] == 855
    wanted = {
        "R@1": 0.143,
        "R@5": 0.334,
        "R@10": 0.454,
        "nDCG@10": 0.287,
        "Success@1": 0.156,
        "Success@5": 0.370,
        "Success@10": 0.504,
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=0.01)


def test_arms_over_realmem_hit_and_repeat_as_known(realmem: Path, tmp_path: Path) -> None:
    """One test, for each process of the suite that had a part of it would embed the persona: half a minute."""
    arms = ("vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1")
    out = tmp_path / "run"
    found = _means(realmem, "realmem", arms, out, labels="sampled", conversation=(PERSONA,))
    hits = {arm: one["Success@6"] for arm, one in found.items()}
    assert {one["n"] for one in found.values()} == {153}
    # Untiered search, then both policies.
    untiered = {"vector": 0.471, "bm25": 0.484, "hybrid": 0.490}
    assert {arm: hits[arm] for arm in untiered} == pytest.approx(untiered, abs=0.01)
    assert 0.12 <= hits["tier_first_v1"] <= 0.20
    assert 0.45 <= hits["tier_quota_v1"] <= 0.49
    assert 0.75 <= found["tier_first_v1"]["RepeatRate"] <= 0.85
    assert 0.41 <= found["tier_quota_v1"]["RepeatRate"] <= 0.46
