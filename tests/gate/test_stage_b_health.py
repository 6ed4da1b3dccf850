"""Verdicts of stage-b on gateway logs: sound ones, and each kind of damage that its health rules detect."""

from __future__ import annotations

import importlib.util
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from lab.canary.audit.audit import audit
from lab.gate.line import FAIL, INCONCLUSIVE, PASS
from lab.gate.policy import read_policy
from lab.gate.verdict import Verdict, judge

pytestmark = pytest.mark.slow

POLICIES = ("tier_first_v1", "tier_quota_v1")
# The rules that catch each kind of damage, made by fault switches of a replay or by edits of sound receipts.
REPLAYED = {
    "dead text lane": {"lanes.without_fts_share", "lanes.worst_window_without_fts"},
    "dead vector lane": {"lanes.without_vec_share"},
    "provider fails in 10 %": {"lanes.without_vec_share", "provider.rate"},
    "cut blocks": {"budget.bare_rate"},
}
EDITED = {
    "over_budget": {"budget.over"},
    "no_limit": {"limits.items_most", "limits.uneven_rate"},
    "other_scope": {"scope.unexplained"},
    "frozen": {"stale.rate", "stale.vec_rate"},
}
# Damage that begins within a log, and the rule that fails however long the sound part is.
HALF_WAY = {
    "dead text lane": "lanes.worst_window_without_fts",
    "dead vector lane": "lanes.without_vec_share",
}


@pytest.fixture(scope="module")
def logs() -> ModuleType:
    """The module of the trial that makes logs."""
    path = Path(__file__).parents[1] / "trials" / "canary_logs.py"
    spec = importlib.util.spec_from_file_location("canary_logs", path)
    assert spec
    assert spec.loader
    module = sys.modules["canary_logs"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pools(logs: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Sessions of a few shipped conversations, by the name of a replay and by policy."""
    folder, made = tmp_path_factory.mktemp("canary"), {}

    def pool(name: str) -> dict[str, Any]:
        if name not in made:
            made[name] = logs.replayed(folder, name, embedder="hashing", conversations=3)
        return made[name]

    return pool


# The rules on what is injected, which say nothing about the engine's health.
VARIETY = {"repeat.rate", "repeat.longest_streak", "must.share", "repeat.distinct_share"}


def judged(folder: Path, *files: list[str], variety: bool = False) -> Verdict:
    paths = [folder / f"{number}.log" for number in range(len(files))]
    for path, lines in zip(paths, files, strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    policy = read_policy("stage-b")
    rules = tuple(rule for rule in policy.rules if variety or rule.measure not in VARIETY)
    return judge(replace(policy, rules=rules), audit=audit([str(path) for path in paths]))


def failed(verdict: Verdict) -> set[str]:
    return {one.measure for one in verdict.lines if one.critical and one.status == FAIL}


@pytest.mark.parametrize("policy", POLICIES)
def test_stage_b_sound_logs_pass_under_either_policy(logs: ModuleType, pools: Any, tmp_path: Path, policy: str) -> None:
    draw = random.Random(3)
    lines = logs.lines_of(logs.sampled(pools("sound")[policy], 400, draw))
    verdict = judged(tmp_path, lines)
    assert verdict.status == PASS, [one.reason for one in verdict.lines if one.critical and one.status != PASS]
    # Cutting lines at both ends, or adding the console, changes nothing.
    assert judged(tmp_path, [lines[0][300:], *lines[1:-1], lines[-1][:-300]]).status == PASS
    beside = judged(tmp_path, lines, logs.console_of(lines, -7))
    assert (beside.status, beside.audit) == (PASS, verdict.audit | {"files": beside.audit["files"]})
    # Paired receipts are not extra traffic; a block injected twice is advisory.
    paired = judged(tmp_path, logs.lines_of(logs.sampled(pools("sound")[policy], 400, draw), twice=0.45))
    assert paired.status == PASS
    assert [one.status for one in paired.lines if one.measure == "pairs.injected_rate"] == [FAIL]


def test_stage_b_refuses_a_log_of_the_old_policy(logs: ModuleType, pools: Any, tmp_path: Path) -> None:
    first, quota = (
        judged(tmp_path, logs.lines_of(logs.sampled(pools("sound")[policy], 400, random.Random(3))), variety=True)
        for policy in POLICIES
    )
    assert (first.status, first.exit_code) == (FAIL, 1)
    assert failed(first) >= {"must.share"}
    assert failed(first) <= VARIETY
    assert "must.share" not in failed(quota)
    # Too short a log is not refused for it.
    short = judged(tmp_path, logs.lines_of(pools("sound")[POLICIES[0]][:5]), variety=True)
    assert (short.status, failed(short)) == (INCONCLUSIVE, set())


def test_stage_b_too_few_recalls_stay_inconclusive(logs: ModuleType, pools: Any, tmp_path: Path) -> None:
    verdict = judged(tmp_path, logs.lines_of(pools("sound")[POLICIES[1]][:5]))
    assert (verdict.status, verdict.exit_code) == (INCONCLUSIVE, 3)


@pytest.mark.parametrize("name", REPLAYED)
def test_stage_b_fails_what_a_broken_part_logs(logs: ModuleType, pools: Any, tmp_path: Path, name: str) -> None:
    for policy in POLICIES:
        verdict = judged(tmp_path, logs.lines_of(logs.sampled(pools(name)[policy], 320, random.Random(5))))
        assert verdict.status == FAIL, policy
        # The rule on the lane needs more sessions.
        sometimes = {"lanes.without_vec_share"} if name.endswith("10 %") else set()
        assert REPLAYED[name] - sometimes <= failed(verdict) <= REPLAYED[name], policy


@pytest.mark.parametrize("name", EDITED)
def test_stage_b_fails_violated_limits(logs: ModuleType, pools: Any, tmp_path: Path, name: str) -> None:
    edit = getattr(logs, name)
    for policy in POLICIES:
        pool = logs.sampled(pools("sound")[policy], 320, random.Random(5))
        verdict = judged(tmp_path, logs.lines_of(edit(pool) if name == "frozen" else logs.edited(pool, edit)))
        assert verdict.status == FAIL
        assert failed(verdict) == EDITED[name], policy


@pytest.mark.parametrize("name", HALF_WAY)
def test_stage_b_fails_a_lane_that_dies_half_way(logs: ModuleType, pools: Any, tmp_path: Path, name: str) -> None:
    for policy in POLICIES:
        sound, dead = (logs.sampled(pools(one)[policy], 200, random.Random(7)) for one in ("sound", name))
        verdict = judged(tmp_path, logs.lines_of([*sound, *dead]))
        assert verdict.status == FAIL, policy
        assert HALF_WAY[name] in failed(verdict), policy


def test_stage_b_fails_a_quota_that_is_not_kept(logs: ModuleType, pools: Any, tmp_path: Path) -> None:
    pool = logs.sampled(pools("sound")["tier_quota_v1"], 320, random.Random(5))
    verdict = judged(tmp_path, logs.lines_of(logs.edited(pool, logs.no_quota)))
    assert "quota.overrun_rate" in failed(verdict)


def test_stage_b_remarks_lines_without_session(logs: ModuleType, pools: Any, tmp_path: Path) -> None:
    lines = logs.lines_of(logs.sampled(pools("sound")[POLICIES[0]], 400, random.Random(3)))
    reasons = {one.measure: one.reason for one in judged(tmp_path, lines, variety=True).lines}
    assert "have no session: the recalls of a scope count as one session" in reasons["repeat.rate"]
    assert "have no session" not in reasons["errors.rate"]


def test_stage_b_real_logs_are_too_short_for_a_verdict(shared: Any) -> None:
    folder = shared("live", "logs")
    for log in sorted(folder.iterdir()):
        verdict = judge(read_policy("stage-b"), audit=audit([str(log)]))
        assert (verdict.exit_code, failed(verdict)) == (3, set()), log.name
