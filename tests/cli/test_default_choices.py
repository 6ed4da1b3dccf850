"""Defaults of commands that get only paths and a format."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Lab = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def chosen(lab: Lab, make_set: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that was replayed without a named arm."""
    folder = tmp_path_factory.mktemp("chosen")
    make_set(folder, "den", "attic")
    done = lab(*("replay", "datasets/tiny", "--format", "lab", "--out", "run", "--embedder", "hashing"), cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_replay_without_arms_runs_both_policies_and_hybrid(chosen: Path) -> None:
    manifest = json.loads((chosen / "run" / "manifest.json").read_text())
    assert manifest["asked"]["arms"] == ["tier_first_v1", "tier_quota_v1", "hybrid"]


def test_compare_without_arms_takes_the_first_two_of_the_run(lab: Lab, chosen: Path) -> None:
    found = json.loads(lab("compare", "run", "--json", cwd=chosen).stdout)
    assert (found["baseline"], found["candidate"]) == ("tier_first_v1", "tier_quota_v1")
    against = json.loads(lab("compare", "run", "--candidate", "tier_first_v1", "--json", cwd=chosen).stdout)
    assert (against["baseline"], against["candidate"]) == ("tier_quota_v1", "tier_first_v1")


def test_compare_with_one_arm_says_how_to_add_a_second(lab: Lab, chosen: Path) -> None:
    arguments = ("replay", "datasets/tiny", "--format", "lab", "--arm", "hybrid", "--embedder", "hashing")
    assert lab(*arguments, "--out", "single", cwd=chosen).returncode == 0
    done = lab("compare", "single", cwd=chosen)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: the run has one arm, hybrid; replay it with a second --arm")


def test_gate_without_a_policy_judges_a_run_by_rollout(lab: Lab, chosen: Path) -> None:
    verdict = json.loads(lab("gate", "run", "--json", cwd=chosen).stdout)
    assert (verdict["policy"], verdict["candidate"]) == ("rollout", "tier_quota_v1")


def test_gate_without_a_policy_judges_receipts_by_stage_b(lab: Lab, chosen: Path) -> None:
    (chosen / "gateway.log").write_text("2026-03-01T09:00:00Z nothing of note\n")
    lab("canary", "audit", "gateway.log", "--out", "audit.json", cwd=chosen)
    done = lab("gate", "audit.json", "--json", cwd=chosen)
    assert json.loads(done.stdout)["policy"] == "stage-b", done.stderr
