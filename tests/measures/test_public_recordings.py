"""Real recordings, real vectors: what untiered search and both policies are known to score on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.measures.score import read_gold, score_run, summarise
from lab.replay.plan import Asked
from lab.replay.run import run_replay

# Two of the four personas: embedding all takes two minutes more.
PERSONAS = ("Kenta_Tanaka", "Lin_Wanyu")


def _means(path: Path, format_name: str, arms: tuple[str, ...], out: Path, **asked: Any) -> dict[str, Any]:
    outcome = run_replay(Asked(str(path), format_name, arms, **asked), out)
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
def personas(realmem: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Both through all arms; a minute of embedding where no vectors are cached."""
    arms = ("vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1")
    out = tmp_path_factory.mktemp("realmem") / "run"
    return _means(realmem, "realmem", arms, out, labels="sampled", conversation=PERSONAS)


@pytest.mark.parametrize(("arm", "expected"), [("vector", 0.516), ("bm25", 0.477), ("hybrid", 0.509)])
def test_untiered_search_over_realmem_hits_as_known(personas: dict[str, Any], arm: str, expected: float) -> None:
    assert personas[arm]["n"] == 279
    assert personas[arm]["Success@6"] == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize(
    ("arm", "hits", "repeats"),
    [("tier_first_v1", (0.12, 0.20), (0.75, 0.85)), ("tier_quota_v1", (0.48, 0.54), (0.40, 0.55))],
)
def test_policies_over_realmem_hit_and_repeat_as_known(
    personas: dict[str, Any], arm: str, hits: tuple[float, float], repeats: tuple[float, float]
) -> None:
    assert hits[0] <= personas[arm]["Success@6"] <= hits[1]
    assert repeats[0] <= personas[arm]["RepeatRate"] <= repeats[1]
