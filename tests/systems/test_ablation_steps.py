"""The ablation from the old policy to the full engine: each step adds one feature to the step before."""

from __future__ import annotations

from typing import Any

import pytest

from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.presets import ABLATION, ABLATION_STEPS

# The keys that each step changes against the step before, in a configuration that does not set them.
ADDS: dict[str, dict[str, Any]] = {
    "quota_repeat": {"lab.phases.repeat": True},
    "quota_backbone": {"workingSet.enabled": True},
    "quota_score": {
        f"lab.phases.score.{factor}": True
        for factor in ("relevance", "scopeMatch", "recency", "importancePrior", "novelty")
    },
    "seed_full": {
        "lab.phases.hardRules": True,
        "lab.phases.trust": "prefer",
        "lab.phases.recentDays": 7,
        "lab.phases.tierMode": "fallback",
    },
}


def flat(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {path: value}
    return {
        key: leaf for name, inner in value.items() for key, leaf in flat(inner, f"{path}.{name}".strip(".")).items()
    }


def settings(step: str, raw: Any = None) -> dict[str, Any]:
    return flat(describe(ABLATION_STEPS[step].config(resolve(raw, "seed"))))


def test_quota_flow_runs_the_new_policy_with_every_phase_off() -> None:
    resolved = settings("quota_flow", {"workingSet": True, "autoRecall": {"selectionMode": "tier_first_v1"}})
    assert resolved["autoRecall.selectionMode"] == "tier_quota_v1"
    assert [resolved[f"lab.phases.{name}"] for name in ("repeat", "hardRules")] == [False, False]
    assert not any(on for key, on in resolved.items() if key.startswith("lab.phases.score."))
    assert resolved["workingSet.enabled"] is False


@pytest.mark.parametrize(("step", "adds"), ADDS.items())
def test_ablation_step_adds_one_feature_to_the_step_before(step: str, adds: dict[str, Any]) -> None:
    names = list(ABLATION_STEPS)
    previous, current = settings(names[names.index(step) - 1]), settings(step)
    assert {key: value for key, value in current.items() if previous[key] != value} == adds


def test_ablation_steps_keep_other_settings_of_the_operator() -> None:
    raw = {
        "autoRecall": {"maxItems": 3, "quotas": {"mustMax": 1}, "repeatPenalty": 0.5},
        "workingSet": {"enabled": False, "maxChars": 500},
        "lab": {"phases": {"repeatDecay": "once", "score": {"novelty": True}}},
    }
    for step in ABLATION_STEPS:
        resolved = settings(step, raw)
        assert [resolved[f"autoRecall.{name}"] for name in ("maxItems", "quotas.mustMax", "repeatPenalty")] == [
            3,
            1,
            0.5,
        ]
        assert (resolved["workingSet.maxChars"], resolved["lab.phases.repeatDecay"]) == (500, "once")
    assert settings("quota_score", raw)["lab.phases.score.novelty"] is True


def test_ablation_starts_with_both_policies_unchanged() -> None:
    assert [step.arm for step in ABLATION] == ["tier_first_v1", "tier_quota_v1", "quota_flow", *ADDS]
    config = resolve(None, "seed")
    assert all(step.config(config) == config for step in ABLATION[:2])
