"""Switched back against never switched: equal, different, nothing to undo, and unusable input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.base.errors import UnusableInput
from lab.replay.rollback import rollback
from lab.runs.request import ReplayRequest
from lab.systems.openclaw.config.settings import EngineConfig
from tests.commands import run_here

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


def _hosted(**engine: Any) -> dict[str, Any]:
    entry = {"enabled": True, "config": engine}
    return {"plugins": {"slots": {"memory": "openclaw-mem-engine"}, "entries": {"openclaw-mem-engine": entry}}}


@pytest.mark.parametrize(("most", "why"), [(9, "9"), (2.5, "2.5")])
def test_rollback_of_what_the_host_refuses_raises(tmp_path: Path, most: float, why: str) -> None:
    config = _hosted(autoRecall={"maxItems": most})
    with pytest.raises(
        UnusableInput, match=r"autoRecall\.maxItems: the host refuses this: .*lab config check"
    ) as caught:
        rollback(request(tmp_path, config, profile="upstream"))
    assert why in str(caught.value)


def test_rollback_says_that_it_is_a_trial_and_that_the_embedder_differs(tmp_path: Path) -> None:
    result = rollback(request(tmp_path, _hosted(autoRecall={"maxItems": 3}), profile="upstream", labels="sampled"))
    assert result.trial == (
        "embedder hashing, which is for tests",
        "1 conversation, chosen by name",
        "labels sampled, must 0.10, nice 0.63, seed 0",
    )
    (note,) = result.notes
    assert note.startswith("embedder: the configuration of arm engine names text-embedding-3-small; this run used hash")
    value = result.as_json()
    assert (value["trial"], value["notes"]) == (list(result.trial), [note])


def test_rollback_without_recalls_names_the_option(tmp_path: Path, locomo: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(FULL), "utf-8")
    few = ReplayRequest(str(locomo), "locomo", (), config=str(path), embedder="hashing", limit=1)
    # LoCoMo asks its questions after the end, and no turn before recalls.
    result = rollback(replace(few, recall_turns="none"))
    assert (result.verdict, result.short) == ("inconclusive", 1)
    assert result.reason.endswith("replay more turns with --recall-turns all")


def test_rollback_command_says_everything_once(tmp_path: Path) -> None:
    asked = request(tmp_path)
    words = (
        "canary",
        "rollback",
        asked.path,
        "--config",
        "mine.json",
        "--embedder",
        "hashing",
        "--conversation",
        "salt-lane",
    )
    done = run_here(*words, "--recall-turns", "none", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("trial: embedder hashing")
    assert (done.stdout + done.stderr).count("so there is nothing to compare") == 1
    assert "Left out, with fewer than 3 recalls: 1 conversation." in done.stdout
    assert "error" not in done.stderr
    without = run_here("canary", "rollback", asked.path, cwd=tmp_path)
    assert (without.returncode, "Missing option '--config'" in without.stderr) == (2, True)
