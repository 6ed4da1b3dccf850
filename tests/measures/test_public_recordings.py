"""Real recordings, real vectors: what untiered search and both policies are known to score on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.measures.score import score_run, summarise
from lab.replay.plan import ReplayRequest
from lab.replay.run import run_replay
from lab.runs.gold import read_gold

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


@pytest.fixture(scope="module")
def persona(realmem: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Through all arms; half a minute of embedding where no vectors are cached."""
    arms = ("vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1")
    out = tmp_path_factory.mktemp("realmem") / "run"
    return _means(realmem, "realmem", arms, out, labels="sampled", conversation=(PERSONA,))


@pytest.mark.parametrize(("arm", "expected"), [("vector", 0.471), ("bm25", 0.484), ("hybrid", 0.490)])
def test_untiered_search_over_realmem_hits_as_known(persona: dict[str, Any], arm: str, expected: float) -> None:
    assert persona[arm]["n"] == 153
    assert persona[arm]["Success@6"] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("arm", "hits", "repeats"),
    [("tier_first_v1", (0.12, 0.20), (0.75, 0.85)), ("tier_quota_v1", (0.45, 0.49), (0.41, 0.46))],
)
def test_policies_over_realmem_hit_and_repeat_as_known(
    persona: dict[str, Any], arm: str, hits: tuple[float, float], repeats: tuple[float, float]
) -> None:
    assert hits[0] <= persona[arm]["Success@6"] <= hits[1]
    assert repeats[0] <= persona[arm]["RepeatRate"] <= repeats[1]
