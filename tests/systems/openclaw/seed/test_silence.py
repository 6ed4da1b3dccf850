"""A silent turn: no memory is injected, hard rules stay, and the receipt and its explanation say why."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.canary.audit.check import check_recall
from lab.systems.openclaw.js import js_json
from tests.playing import shipped_answers


def always(signal: str) -> dict[str, Any]:
    return {"silence": {"signal": signal, "threshold": 1.0}}


@pytest.mark.parametrize(
    ("system", "signal"),
    [
        *((system, "top") for system in ("vector", "bm25", "hybrid", "tier_first_v1", "tier_quota_v1")),
        *(("hybrid", signal) for signal in ("mean", "margin", "words")),
    ],
)
def test_searching_arm_below_the_threshold_injects_nothing(system: str, signal: str) -> None:
    recalls = [answered.recall for answered in shipped_answers(system, always(signal))]
    assert {recall.injected for recall in recalls} == {0}
    assert all(recall.context == "" for recall in recalls)
    assert any(recall.receipt["rejected"] == ["low_relevance"] for recall in recalls)
    if system.startswith("tier_"):
        # The audit of logged receipts accepts a silent turn.
        for recall in recalls:
            check_recall(json.loads(js_json(recall.receipt)))


@pytest.mark.parametrize("system", ["recency", "random", "none"])
def test_arm_that_does_not_search_ignores_silence(system: str) -> None:
    silent, plain = (shipped_answers(system, lab) for lab in (always("top"), {}))
    assert [answered.recall.items for answered in silent] == [answered.recall.items for answered in plain]


def test_silent_flow_keeps_hard_rules_and_no_documents() -> None:
    silent = shipped_answers("seed_full", always("words"), workingSet={"enabled": False})
    spoken = shipped_answers("seed_full", {}, workingSet={"enabled": False})
    pairs = [
        (below, plain)
        for below, plain in zip(silent, spoken, strict=True)
        if plain.visible > 5 and plain.recall.status == "ok"
    ]
    assert pairs
    for below, plain in pairs:
        assert below.hard_kept == plain.hard_kept
        assert below.recall.injected <= below.hard_rules
        assert "low_relevance" in below.recall.receipt["rejected"]
        check_recall(json.loads(js_json(below.recall.receipt)))
        assert plain.recall.injected > below.recall.injected


def test_switching_back_the_policy_switches_silence_off() -> None:
    old = {"autoRecall": {"selectionMode": "tier_first_v1"}}
    silent, plain = (shipped_answers("engine", lab, **old) for lab in (always("top"), {}))
    assert [answered.recall.receipt for answered in silent] == [answered.recall.receipt for answered in plain]


def test_min_relevance_leaves_out_items_of_the_vector_arm() -> None:
    """The threshold for each item of seed 004, in a baseline."""
    every = shipped_answers("vector", {})
    near = shipped_answers("vector", {"phases": {"minRelevance": 0.4}})
    kept = sum(answered.recall.injected for answered in near)
    assert 0 < kept < sum(answered.recall.injected for answered in every)
    words = [shipped_answers("bm25", lab) for lab in ({}, {"phases": {"minRelevance": 0.4}})]
    assert [answered.recall.items for answered in words[0]] == [answered.recall.items for answered in words[1]]
