"""A silent turn: no memory is injected, hard rules stay, and the receipt and its explanation say why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.replay.loop import Answered, replay
from lab.replay.plan import ReplayRequest, make_plan
from lab.replay.sources import open_sources, play_of, prepare, tools_of
from lab.systems.registry import make_arm
from lab.systems.spec import ArmSpec

OPERATORS = Path(__file__).resolve().parents[4] / "datasets" / "operators"


def answers(system: str, lab: dict[str, Any], **more: Any) -> list[Answered]:
    """Replay one shipped conversation with a configuration of the lab's own keys."""
    arm = make_arm(ArmSpec(system, system, {"lab": lab} | more))
    request = ReplayRequest(
        str(OPERATORS), "lab", (system,), embedder="hashing", conversation=("harbor-release",), hard_rules=2
    )
    plan = make_plan(request, made={system: arm})
    sources = open_sources(plan)
    prepare(plan, plan.recordings, sources, lambda _: None)
    recording = plan.recordings[0]
    return list(replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms, infos=plan.infos))


def always(signal: str) -> dict[str, Any]:
    return {"silence": {"signal": signal, "threshold": 1.0}}


@pytest.mark.parametrize("signal", ["top", "mean", "margin", "words"])
@pytest.mark.parametrize("system", ["vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1"])
def test_searching_arm_below_the_threshold_injects_nothing(system: str, signal: str) -> None:
    recalls = [answered.recall for answered in answers(system, always(signal))]
    assert {recall.injected for recall in recalls} == {0}
    assert all(recall.context == "" for recall in recalls)
    assert any(recall.receipt["rejected"] == ["low_relevance"] for recall in recalls)


@pytest.mark.parametrize("system", ["recency", "random", "none"])
def test_arm_that_does_not_search_ignores_silence(system: str) -> None:
    silent, plain = (answers(system, lab) for lab in (always("top"), {}))
    assert [answered.recall.items for answered in silent] == [answered.recall.items for answered in plain]


def test_silent_flow_keeps_hard_rules_and_no_documents() -> None:
    silent = answers("seed_full", always("words"), workingSet={"enabled": False})
    spoken = answers("seed_full", {}, workingSet={"enabled": False})
    asked = [
        (one, other)
        for one, other in zip(silent, spoken, strict=True)
        if other.visible > 5 and other.recall.status == "ok"
    ]
    assert asked
    for one, other in asked:
        assert one.hard_kept == other.hard_kept
        assert one.recall.injected <= one.hard_rules
        assert "low_relevance" in one.recall.receipt["rejected"]
        assert other.recall.injected > one.recall.injected


def test_switching_back_the_policy_switches_silence_off() -> None:
    old = {"autoRecall": {"selectionMode": "tier_first_v1"}}
    silent, plain = (answers("engine", lab, **old) for lab in (always("top"), {}))
    assert [answered.recall.receipt for answered in silent] == [answered.recall.receipt for answered in plain]


def test_min_relevance_leaves_out_items_of_the_vector_arm() -> None:
    """The threshold for each item of seed 004, in a baseline."""
    every = answers("vector", {})
    near = answers("vector", {"phases": {"minRelevance": 0.4}})
    kept = sum(answered.recall.injected for answered in near)
    assert 0 < kept < sum(answered.recall.injected for answered in every)
    words = [answers("bm25", lab) for lab in ({}, {"phases": {"minRelevance": 0.4}})]
    assert [answered.recall.items for answered in words[0]] == [answered.recall.items for answered in words[1]]
