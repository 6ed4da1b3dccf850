"""The steps between the old policy and all that the seeds ask for: each adds one thing to the one before."""

from __future__ import annotations

from typing import Any

import pytest

from lab.systems.openclaw.ablation import ABLATION, ABLATION_STEPS
from lab.systems.openclaw.config.resolve import describe, resolve

# What each step changes against the step before, in an operator's configuration that says nothing of it.
ADDS: dict[str, dict[str, Any]] = {
    "quota_repeat": {"lab.phases.repeat": True},
    "quota_backbone": {"workingSet.enabled": True},
    "quota_score": {
        f"lab.phases.score.{factor}": True for factor in ("relevance", "scopeMatch", "recency", "importancePrior")
    },
    "seed_full": {"lab.phases.hardRules": True},
}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    return {key: one for name, inner in value.items() for key, one in flat(inner, f"{path}.{name}".strip(".")).items()}


def settings(step: str, raw: Any = None) -> dict[str, Any]:
    return flat(describe(ABLATION_STEPS[step].config(resolve(raw, "seed"))))


def test_the_flow_is_the_new_policy_with_every_phase_off() -> None:
    found = settings("quota_flow", {"workingSet": True, "autoRecall": {"selectionMode": "tier_first_v1"}})
    assert found["autoRecall.selectionMode"] == "tier_quota_v1"
    assert [found[f"lab.phases.{name}"] for name in ("repeat", "hardRules")] == [False, False]
    assert not any(on for key, on in found.items() if key.startswith("lab.phases.score."))
    assert found["workingSet.enabled"] is False


@pytest.mark.parametrize(("step", "adds"), ADDS.items())
def test_a_rung_adds_one_thing_to_the_one_before(step: str, adds: dict[str, Any]) -> None:
    names = list(ABLATION_STEPS)
    below, here = settings(names[names.index(step) - 1]), settings(step)
    assert {key: value for key, value in here.items() if below[key] != value} == adds


def test_what_the_operator_set_besides_is_kept_on_every_rung() -> None:
    raw = {
        "autoRecall": {"maxItems": 3, "quotas": {"mustMax": 1}, "repeatPenalty": 0.5},
        "workingSet": {"enabled": False, "maxChars": 500},
        "lab": {"phases": {"repeatDecay": "once", "score": {"novelty": True}}},
    }
    for step in ABLATION_STEPS:
        found = settings(step, raw)
        assert [found[f"autoRecall.{name}"] for name in ("maxItems", "quotas.mustMax", "repeatPenalty")] == [3, 1, 0.5]
        assert (found["workingSet.maxChars"], found["lab.phases.repeatDecay"]) == (500, "once")
    assert settings("quota_score", raw)["lab.phases.score.novelty"] is True


def test_the_ladder_stands_on_both_policies() -> None:
    assert [step.arm for step in ABLATION] == ["tier_first_v1", "tier_quota_v1", "quota_flow", *ADDS]
    config = resolve(None, "seed")
    assert all(step.config(config) == config for step in ABLATION[:2])
