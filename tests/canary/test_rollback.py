"""Switched back against never switched: equal, different, nothing to undo, and unusable input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.canary.rollback import rollback
from lab.errors import UnusableInput
from lab.replay.plan import ReplayRequest
from lab.systems.openclaw.config.settings import EngineConfig

ROOT = Path(__file__).resolve().parents[2]
FULL = {"autoRecall": {"selectionMode": "tier_quota_v1"}, "workingSet": {"enabled": True}}


def request(tmp_path: Path, config: object = FULL, **options: Any) -> ReplayRequest:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(config), "utf-8")
    options = {"scope": "recorded", "embedder": "hashing", "conversation": ("salt-lane",)} | options
    return ReplayRequest(str(ROOT / "datasets" / "traps"), "lab", (), config=str(path), **options)


@pytest.mark.parametrize("profile", ["seed", "upstream"])
def test_rollback_of_the_shipped_engine_leaves_nothing(tmp_path: Path, profile: str) -> None:
    result = rollback(request(tmp_path, profile=profile))
    assert (result.verdict, result.differ["before"], result.differ["after"]) == ("pass", 0, 0)
    assert result.differ["switched"] > 5
    assert min(result.recalls.values()) > 5
    assert result.as_json()["first"] is None


def test_rollback_that_leaves_a_trace_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the old policy kept repeat suppression, what the new one injected would be remembered."""
    monkeypatch.setattr(EngineConfig, "phased", True)
    monkeypatch.setattr(EngineConfig, "active_phases", property(lambda config: config.phases))
    result = rollback(request(tmp_path))
    assert (result.verdict, result.differ["before"]) == ("fail", 0)
    assert result.first is not None
    assert result.first.phase == "after"
    assert "injected text" in result.first.parts
    assert result.first.turn in result.reason


def test_rollback_without_an_effect_is_inconclusive(tmp_path: Path) -> None:
    # One label and one slot, without scores that only the new policy has: there is nothing for quotas to divide.
    one = {"autoRecall": {"maxItems": 1}}
    result = rollback(request(tmp_path, one, profile="upstream", labels="sampled", must_share=1.0, nice_share=0.0))
    assert (result.verdict, result.differ) == ("inconclusive", {"before": 0, "switched": 0, "after": 0})
    assert "nothing to undo" in result.reason


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"autoRecall": {"enabled": False}}, "autoRecall.enabled is false"),
        ({"autoRecall": {"selectonMode": "tier_quota_v1"}}, "selectonMode"),
    ],
)
def test_rollback_of_an_unusable_configuration_raises(tmp_path: Path, config: object, message: str) -> None:
    with pytest.raises(UnusableInput, match=message):
        rollback(request(tmp_path, config))


def test_rollback_without_a_configuration_names_the_option() -> None:
    with pytest.raises(UnusableInput, match="--config FILE"):
        rollback(ReplayRequest("x", "lab", ()))
