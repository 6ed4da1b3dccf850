"""Latency rules on timings of a replay, and exact rules on receipts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.base.errors import UnusableInput
from lab.gate.line import ERROR, FAIL, INCONCLUSIVE, PASS, SKIPPED, Line
from lab.gate.policy import Policy, Rule
from lab.gate.verdict import judge, judge_latency
from lab.measures.latency import least_n, quantile, stages, warm_times
from lab.runs.directory import RunDirectory, open_run
from lab.runs.tables import read_table, write_table

POLICY = Policy("mine", "what it means", "tier_first_v1", "tier_quota_v1", 6, ())
Timed = Callable[..., RunDirectory]


@pytest.fixture
def retimed(run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory]) -> Timed:
    """A copy of the run with these timings in its first conversation, and none in the others."""

    def make(rows: list[dict[str, Any]]) -> RunDirectory:
        path = tmp_path / "timed"
        shutil.copytree(run.path, path, dirs_exist_ok=True)
        made, table = open_run(path), pa.Table.from_pylist(rows)
        for conversation in made.conversations:
            write_table(
                table if conversation == made.conversations[0] else table.slice(0, 0), made.latency(conversation)
            )
        return resealed(path)

    return make


@pytest.fixture
def timed(retimed: Timed) -> Timed:
    """A copy of the run in which the arms took so many milliseconds: 1, 2 … ``turns`` times ``scale`` for each arm."""

    def make(turns: int, **scales: float) -> RunDirectory:
        rows = [
            {"arm": arm, "turn": f"t{turn}", "stage": stage, "ns": int(ns), "cold": turn == 0}
            for turn in range(turns + 1)
            for arm, scale in scales.items()
            # The first turn is cold and slow.
            for stage, ns in (("search", scale * 1e6 * (turn or 900)), ("select", 0), ("retrieve", 0))
        ]
        rows.append({"arm": "tier_quota_v1", "turn": "passed over", "stage": "scope", "ns": 10**12, "cold": False})
        return retimed(rows)

    return make


def judged(rule: Rule, run: RunDirectory) -> Line:
    (line,) = judge_latency(POLICY, [rule], run)
    return line


def test_warm_times_use_warm_turns_and_add_up(run: RunDirectory) -> None:
    rows = [row for name in run.conversations for row in read_table(run.latency(name)).to_pylist()]
    for arm in run.arms:
        found = warm_times(run)[arm]
        mine = [row for row in rows if row["arm"] == arm and not row["cold"]]
        searched = {row["turn"] for row in mine if row["stage"] == "search"}
        counted = [row for row in mine if row["turn"] in searched]
        # A shared search is charged to both arms.
        assert {row["stage"] for row in counted} == found.keys() - {"total"} >= {"retrieve", "search", "select"}
        assert len(found["total"]) == len(searched)
        assert sum(found["total"]) == pytest.approx(sum(row["ns"] for row in counted) / 1e6)


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        ({"at_most_ms": 70}, PASS),
        ({"at_most_ms": 30}, FAIL),
        ({"at_most_ms": 50}, INCONCLUSIVE),
        ({"at_most_ratio": 2.0}, PASS),
        ({"at_most_ratio": 0.5}, FAIL),
        ({"at_most_ratio": 1.0}, INCONCLUSIVE),
        ({"at_most_ms": 70, "at_most_ratio": 2.0}, PASS),
        ({"at_most_ms": 70, "at_most_ratio": 0.5}, FAIL),
        ({"at_most_ms": 50, "at_most_ratio": 2.0}, INCONCLUSIVE),
    ],
)
def test_latency_rule_is_decided_by_its_bound(timed: Timed, rule: dict[str, float], status: str) -> None:
    line = judged(Rule("latency", "p50 total", quantile=0.5, **rule), timed(100, tier_quota_v1=1, tier_first_v1=1))
    assert line.status == status, line.reason
    assert (line.n, bool(line.settles)) == (100, status == INCONCLUSIVE)
    assert line.low is not None
    assert line.high is not None
    if "at_most_ms" in rule:
        assert line.low < 50 < line.high


def test_warm_times_without_stages_count_the_whole_turn(retimed: Timed) -> None:
    spent = (("t1", "recall", 7), ("t2", "recall", 5), ("t2", "rest", 2), ("t3", "scope", 900))
    rows = [
        {"arm": "tier_quota_v1", "turn": turn, "stage": stage, "ns": ns * 10**6, "cold": False}
        for turn, stage, ns in spent
    ]
    made = retimed(rows)
    assert warm_times(made) == {"tier_quota_v1": {"recall": [7.0, 5.0], "rest": [2.0], "total": [7.0, 7.0]}}
    (total,) = [one.spent for one in stages(made) if (one.arm, one.stage) == ("tier_quota_v1", "total")]
    assert (total.n, total.mean, total.p50) == (2, 7.0, None)


def test_latency_ratio_splits_the_error_level(timed: Timed) -> None:
    made = timed(100, tier_quota_v1=1, tier_first_v1=1)
    line = judged(Rule("latency", "p50 total", quantile=0.5, at_most_ratio=2.0), made)
    half = quantile([float(turn) for turn in range(1, 101)], 0.5, 1 - POLICY.level)
    assert half
    assert (line.low, line.high) == (half.low / half.high, half.high / half.low)


def test_latency_rule_with_few_turns_is_inconclusive(timed: Timed) -> None:
    need = least_n(0.95, 0.9)
    rule = Rule("latency", "p95 total", quantile=0.95, at_most_ms=1000)
    line = judged(rule, timed(need - 1, tier_quota_v1=1))
    assert (line.status, line.settles) == (INCONCLUSIVE, "1 more warm turn in each arm")
    assert judged(rule, timed(need, tier_quota_v1=1)).status == PASS


def test_latency_rule_with_one_violated_limit_fails(timed: Timed, run: RunDirectory) -> None:
    both = Rule("latency", "p50 total", quantile=0.5, at_most_ms=30, at_most_ratio=2)
    # The baseline's time is 0, so there is no ratio.
    line = judged(both, timed(100, tier_quota_v1=1, tier_first_v1=0))
    assert (line.status, line.settles) == (FAIL, None)
    assert "the policy requires at most 30 ms" in line.reason
    assert "the baseline's time is too short to measure" in line.reason
    ratio = judged(
        Rule("latency", "p50 total", quantile=0.5, at_most_ratio=2), timed(100, tier_quota_v1=1, tier_first_v1=0)
    )
    assert (ratio.status, ratio.reason) == (
        INCONCLUSIVE,
        "p50 total: the baseline's time is too short to measure, so there is no ratio",
    )
    within = judged(
        Rule("latency", "p50 total", quantile=0.5, at_most_ms=70, at_most_ratio=2), timed(100, tier_quota_v1=1)
    )
    assert (within.status, within.settles) == (INCONCLUSIVE, f"{least_n(0.5, 0.95)} more warm turns in each arm")


def test_latency_rule_without_timings_or_stage(timed: Timed) -> None:
    limited = Rule("latency", "p50 total", quantile=0.5, at_most_ms=1)
    assert judged(limited, timed(0, tier_quota_v1=1)).status == ERROR
    optional = Rule("latency", "p50 total", quantile=0.5, at_most_ms=1, without_data="skip")
    assert judged(optional, timed(0, tier_quota_v1=1)).status == SKIPPED
    with pytest.raises(UnusableInput, match="no warm turn has this stage; stages: total, search, select, retrieve"):
        judged(Rule("latency", "p50 serach", quantile=0.5, stage="serach", at_most_ms=1), timed(9, tier_quota_v1=1))


def test_exact_rule_names_changed_columns_and_manifest_differences(
    run: RunDirectory, tmp_path: Path, resealed: Callable[[Path], RunDirectory]
) -> None:
    shutil.copytree(run.path, tmp_path / "other")
    other = open_run(tmp_path / "other")
    path = other.receipts(other.conversations[2])
    table = read_table(path)
    chars = [
        value + (arm == "tier_quota_v1")
        for arm, value in zip(table["arm"].to_pylist(), table["chars"].to_pylist(), strict=True)
    ]
    place = table.schema.get_field_index("chars")
    write_table(table.set_column(place, table.schema.field(place), pa.array(chars, table["chars"].type)), path)
    other = resealed(other.path)
    policy = Policy("mine", "what it means", "", "tier_quota_v1", 6, (Rule("exact", "receipts"),))
    (line,) = judge(policy, run, against=other).lines
    turns = table.num_rows // 2
    assert (line.status, line.candidate) == (FAIL, turns)
    assert (
        f"no difference in the manifests: {turns} of 303 turns changed against {other.path} (columns: chars {turns})"
        in line.reason
    )
    assert line.settles == "if the change is intended, approve this run as the baseline"
    (first,) = judge(Policy("mine", "", "", "tier_first_v1", 6, policy.rules), run, against=other).lines
    assert (first.status, first.candidate) == (PASS, 0)
