"""Options of a replay: hard rules, detected categories, scopes by tag, faults."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from lab.base.draw import draw
from lab.recordings.model import MUST
from lab.replay.candidates import rows_of
from lab.replay.explain import explain
from lab.replay.plan import Plan, make_plan
from lab.retrieval.faults import KNOWN, NO_VECTOR, SLOW_NS, FaultPlan
from lab.runs.request import ReplayRequest
from lab.runs.tables import read_table
from tests.playing import as_listed, listed_in

# Stateless arms, so that a fault at one turn affects no other.
ARMS = ("tier_first_v1", "tier_quota_v1", "quota_flow", "vector", "bm25", "recency")
ASKED = "pantry/s1/t2"


@pytest.fixture
def pantry(desk: Any) -> Any:
    """Twelve memories of every label, one recorded as a hard rule; questions, and one turn of thanks."""
    labels = (MUST, "nice_to_have", "unknown", "ignore")
    said: list[tuple[str, dict[str, Any]]] = [
        (f"jar {place} holds pears & plums", {"importance_label": labels[place % 4]}) for place in range(12)
    ]
    said[1][1]["hard_rule"] = True
    turns = [("user", "note the jars of this shelf", *said), ("user", "which jar holds pears"), ("user", "thanks")]
    desk.say("pantry", ("shop", [*turns, ("user", "and which jar holds plums")]))
    return desk


def rules(plan: Plan, place: int = 0) -> set[str]:
    return {row.key for row in rows_of(plan, plan.recordings[place]) if row.hard_rule}


def by_turn(rows: Sequence[dict[str, Any]], arm: str) -> dict[str, dict[str, Any]]:
    return {row["turn"]: row for row in rows if row["arm"] == arm}


@pytest.mark.parametrize("labels", [{"labels": "recorded"}, {"labels": "sampled", "must_share": 0.4}])
def test_hard_rules_sampled_are_nested_must_memories(operators: Path, labels: dict[str, Any]) -> None:
    request = ReplayRequest(str(operators), "lab", ("none",), embedder="hashing", limit=3, **labels)
    plans = [make_plan(replace(request, hard_rules=number)) for number in (0, 1, 2, 5, 999)]
    other = make_plan(replace(request, hard_rules=5, arms=("seed_full", "recency")))
    for place, recording in enumerate(plans[0].recordings):
        sampled = [rules(plan, place) for plan in plans]
        must = {key for key, label in plans[0].labels_of(recording).items() if label == MUST}
        assert [len(one) for one in sampled] == [0, 1, 2, 5, len(must)]
        assert sampled[-1] == must
        assert all(fewer < more for fewer, more in pairwise(sampled))
        # The choice of arms has no influence.
        assert rules(other, place) == sampled[3]
    assert rules(make_plan(replace(request, hard_rules=5, seed=1))) != rules(plans[3])


def test_hard_rules_recorded_ones_are_kept(pantry: Any) -> None:
    own = {"pantry/s1/t1#1"}
    assert rules(make_plan(pantry.request())) == own
    sampled = rules(make_plan(pantry.request(hard_rules=2)))
    assert len(sampled) == 3
    assert own < sampled


def test_hard_rules_counts_are_equal_for_all_arms(pantry: Any) -> None:
    arms = ("tier_quota_v1", "quota_flow", "seed_full", "none", "recency")
    rows = pantry.rows(pantry.run(*arms, hard_rules=2))
    hard = rules(make_plan(pantry.request(hard_rules=2)))
    for row in rows:
        skipped = json.loads(row["receipt"])["skipped"]
        # The flow skips thanks, so no rule is lost there.
        assert skipped is (row["turn"] == "pantry/s1/t3" and row["arm"] in ("quota_flow", "seed_full"))
        assert row["hard_rules"] == (3 if row["seq"] and not skipped else 0)
        if row["arm"] == "seed_full":
            assert row["hard_kept"] == row["hard_rules"]
        else:
            assert row["hard_kept"] == len(hard & set(row["item_key"][: row["injected"]]))
    kept = {(row["arm"], row["hard_kept"]) for row in rows if row["turn"] == ASKED}
    assert kept >= {("seed_full", 3), ("none", 0)}


def test_categories_are_recorded_or_detected(desk: Any) -> None:
    said = [
        ("we decided to use jars", {}),
        ("remember to wash the jars", {"category": "preference"}),
        ("jars have lids", {"category": "preference"}),
        ("我決定買罐子", {}),
    ]
    desk.say("c", ("global", [("user", "note this", *said), ("user", "what about the jars")]))
    result = {}
    for categories in ("recorded", "detected"):
        plan = make_plan(desk.request(categories=categories))
        result[categories] = [row.category for row in rows_of(plan, plan.recordings[0])]
    assert result == {
        "recorded": ["fact", "preference", "preference", "fact"],
        "detected": ["decision", "todo", "preference", "decision"],
    }
    pinned = {
        categories: set(
            by_turn(desk.rows(desk.run("seed_full", out=categories, categories=categories)), "seed_full")["c/s1/t2"][
                "pinned"
            ]
        )
        for categories in result
    }
    decisions = {"c/s1/t1#0", "c/s1/t1#3"}
    assert not decisions & pinned["recorded"]
    assert decisions <= pinned["detected"]


@pytest.mark.parametrize(
    ("text", "scope", "mode"),
    [
        ("[SCOPE: shop] how many pears are there", "shop", "inferred"),
        ("- [ISO: Farm]\nhow many pears are there", "farm", "inferred"),
        ("how many pears are there [SCOPE: shop]", "global", "global"),
        ("[SCOPE: shop floor] how many pears are there", "global", "inferred"),
    ],
)
def test_scope_tag_overrides_the_session(desk: Any, text: str, scope: str, mode: str) -> None:
    said = [(f"pears of {one} {number}", {"scope": one}) for one in ("shop", "farm", "global") for number in range(2)]
    desk.say("c", ("farm", [("user", "note this", *said), ("user", text)]))
    outcome = desk.run(*ARMS, scope="tags")
    for row in desk.rows(outcome):
        if row["turn"] != "c/s1/t2":
            continue
        receipt = json.loads(row["receipt"])
        assert (set(row["item_scope"]), row["visible"], receipt["scope"]) == ({scope}, 2, scope), row["arm"]
        if row["arm"] == "quota_flow":
            assert receipt["scopeMode"] == mode
        result = explain(outcome.run, row["turn"], row["arm"])
        assert as_listed(result.recall) == listed_in(row)
        assert sum(result.visible.values()) == 2


def others(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the turns without the fault, but for the columns that compare a block with the one before."""
    before = ("prefix_tokens", "stable_chars")
    return [{name: row[name] for name in row if name not in before} for row in rows if row["turn"] != ASKED]


@pytest.mark.parametrize("fault", KNOWN)
def test_fault_at_a_turn_affects_only_that_turn(pantry: Any, fault: str) -> None:
    plain = pantry.rows(pantry.run(*ARMS, out="plain"))
    outcome = pantry.run(*ARMS, faults=(f"{fault}={ASKED}",))
    faulty = pantry.rows(outcome)
    assert others(faulty) == others(plain)
    for arm in ARMS:
        before, row = by_turn(plain, arm)[ASKED], by_turn(faulty, arm)[ASKED]
        if fault in ("slow_store", "docs_missing") or arm == "recency":
            assert row["item_key"] == before["item_key"]
            continue
        receipt = json.loads(row["receipt"])
        lost, left = ("fts", "vec") if fault == "fts_error" else ("vec", "fts")
        assert (set(row[f"item_{lost}_rank"]), receipt[f"{lost}Top"]) == ({None} if row["item_key"] else set(), [])
        # An arm with only the failed lane returns nothing; the others continue.
        assert bool(row["item_key"]) is (arm != {"fts": "bm25", "vec": "vector"}[lost])
        assert (NO_VECTOR.get(fault) in receipt["rejected"]) is (fault in NO_VECTOR)
        assert json.loads(before["receipt"])[f"{lost}Top"]
        assert arm in ("vector", "bm25") or receipt[f"{left}Top"]
        assert as_listed(explain(outcome.run, ASKED, arm).recall) == listed_in(row)


def test_fault_slow_store_changes_only_timings(pantry: Any) -> None:
    plain, slow = (pantry.run(*ARMS, out=name, faults=faults) for name, faults in (("a", ()), ("b", ("slow_store",))))
    assert pantry.rows(plain) == pantry.rows(slow)
    spent = [row["ns"] for row in read_table(slow.run.latency("pantry")).to_pylist() if row["stage"] == "search"]
    assert max(spent) >= SLOW_NS


def test_fault_share_is_sampled_by_hash_and_nested() -> None:
    keys = [f"c/s/t{number}" for number in range(400)]
    happens = {
        share: {key for key in keys if FaultPlan((f"fts_error={share}",)).at(key)} for share in (0.05, 0.2, 0.6, 1)
    }
    assert happens[0.2] == {key for key in keys if draw(0, f"fts_error {key}") < 0.2}
    assert happens[0.05] < happens[0.2] < happens[0.6] < happens[1] == set(keys)
    assert len(happens[0.2]) == pytest.approx(80, abs=25)
    # Each fault samples its own turns.
    assert happens[0.2] != {key for key in keys if FaultPlan(("vector_error=0.2",)).at(key)}


def test_faults_can_be_combined() -> None:
    plan = FaultPlan(("fts_error", "slow_store=c/s/t1", "embedder_down=c/s/t2", "embedder_down=0.000001"))
    assert plan.at("c/s/t1") == {"fts_error", "slow_store"}
    assert plan.at("c/s/t2") == {"fts_error", "embedder_down"}
    assert FaultPlan().at("c/s/t1") == frozenset()
