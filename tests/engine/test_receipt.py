"""The recall receipt, key by key, and how numbers and lengths are counted in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.engine.js import js_length, round6
from lab.engine.memory import Candidate, Row
from lab.engine.recall.receipt import recall_receipt
from lab.engine.recall.select.outcome import Picked, Quota, TierCount
from lab.engine.store.contract import Hit, Lanes

LABELS = {"m": "must_remember", "n": "nice_to_have", "i": "ignore", "u": "unknown"}


def row(identity: str, scope: str = "global") -> Row:
    """A row whose first letter is its label."""
    return Row(identity, f"key/{identity}", "a secret text", "a secret text", 0, "fact", LABELS[identity[0]], scope)


def receipt(**changes: Any) -> dict[str, Any]:
    """The receipt of a recall that found nothing, but for ``changes``."""
    plain: dict[str, Any] = {
        "mode": "tier_first_v1",
        "scope": "global",
        "quota": None,
        "tier_counts": [],
        "lanes": [],
        "picked": [],
        "rows": {},
        "store_rows": [],
        "rejected": [],
        "injected": 0,
    }
    return recall_receipt(**(plain | changes))


def test_the_whole_receipt_of_a_recall_with_quotas() -> None:
    rows = [row("m1", "work"), row("n1", "work"), row("u1", "work"), row("m2", "work")]
    picked = [
        Picked(Candidate("m1", 2 / 61, 0, 1, 1), "must", "must_quota"),
        Picked(Candidate("n1", 1 / 61, 0, None, 1), "nice", "nice_quota"),
        Picked(Candidate("u1", 1 / 61, 0, 1, None), "unknown", "unknown_quota"),
        Picked(Candidate("m2", 1 / 62, 0, None, 2), "must", "wildcard"),
    ]
    found = receipt(
        mode="tier_quota_v1",
        scope="work",
        quota=Quota(2, 1, 0, 3),
        tier_counts=[TierCount("must", ("must_remember",), 9, 2), TierCount("nice", ("nice_to_have",), 1, 1)],
        lanes=[
            Lanes([Hit(0, 7.0078125)], [Hit(0, 0.5, 1.0), Hit(3, 0.4, 1.5)]),
            Lanes([], [Hit(1, 0.3333333, 2.0000001)]),
            Lanes([Hit(2, 9.5)], []),
        ],
        picked=picked,
        rows={one.id: one for one in rows},
        store_rows=rows,
        rejected=["budget_cap", "no_results_must", "budget_cap"],
        injected=4,
    )
    assert found == {
        "schema": "openclaw-mem-engine.recall.receipt.v1",
        "verbosity": "low",
        "skipped": False,
        "skipReason": None,
        "rejected": ["no_results_must", "budget_cap"],
        "scope": "work",
        "scopeMode": "inferred",
        "selectionMode": "tier_quota_v1",
        "quota": {"mustMax": 2, "niceMin": 1, "unknownMax": 0, "wildcardUsed": 3},
        "tiersSearched": ["must", "nice"],
        "tierCounts": [
            {"tier": "must", "labels": [], "candidates": 9, "selected": 2},
            {"tier": "nice", "labels": [], "candidates": 1, "selected": 1},
        ],
        "ftsTop": [{"id": "u1", "score": 9.5}, {"id": "m1", "score": 7.007813}],
        "vecTop": [
            {"id": "m1", "score": 0.5, "distance": 1.0},
            {"id": "m2", "score": 0.4, "distance": 1.5},
            {"id": "n1", "score": 0.333333, "distance": 2.0},
        ],
        "fusedTop": ["m1", "n1", "u1"],
        "whySummary": {
            "byTier": {"must": 2, "nice": 1, "unknown": 1, "ignore": 0},
            "fromPrimaryScope": 4,
            "fromFallbackScope": 0,
        },
        "whyTheseIds": [
            {"id": "m1", "tier": "must", "scope": "work", "origin": "primary", "signals": ["fts", "vec"]},
            {"id": "n1", "tier": "nice", "scope": "work", "origin": "primary", "signals": ["vec"]},
            {"id": "u1", "tier": "unknown", "scope": "work", "origin": "primary", "signals": ["fts"]},
        ],
        "finalCount": 4,
        "injectedCount": 4,
    }
    assert "secret" not in json.dumps(found)


def test_an_empty_recall_has_empty_lists_and_no_quota() -> None:
    assert receipt(rejected=["no_results_nice", "no_results_must"]) == {
        "schema": "openclaw-mem-engine.recall.receipt.v1",
        "verbosity": "low",
        "skipped": False,
        "skipReason": None,
        "rejected": ["no_results_must", "no_results_nice"],
        "scope": "global",
        "scopeMode": "global",
        "selectionMode": "tier_first_v1",
        "tiersSearched": [],
        "tierCounts": [],
        "ftsTop": [],
        "vecTop": [],
        "fusedTop": [],
        "whySummary": {
            "byTier": {"must": 0, "nice": 0, "unknown": 0, "ignore": 0},
            "fromPrimaryScope": 0,
            "fromFallbackScope": 0,
        },
        "whyTheseIds": [],
        "finalCount": 0,
        "injectedCount": 0,
    }


def test_the_quota_stands_after_the_mode_as_in_the_plugin() -> None:
    keys = list(receipt(quota=Quota(2, 2, 1)))
    assert keys[keys.index("selectionMode") + 1] == "quota"
    assert keys[-2:] == ["finalCount", "injectedCount"]


def test_the_top_of_a_lane_is_taken_over_all_searches() -> None:
    """Best score of each id, score descending, then id; three at most."""
    rows = [row(one) for one in ("u3", "m1", "n2", "u1", "m9")]
    lanes = [
        Lanes([Hit(1, 5.0), Hit(2, 1.0)], []),
        Lanes([Hit(0, 5.0), Hit(2, 4.0), Hit(3, 4.0), Hit(4, 3.0)], []),
    ]
    found = receipt(lanes=lanes, store_rows=rows)["ftsTop"]
    assert found == [{"id": "m1", "score": 5.0}, {"id": "u3", "score": 5.0}, {"id": "n2", "score": 4.0}]


def test_no_more_than_six_tiers_are_counted_while_all_are_named() -> None:
    counts = [TierCount(f"t{number}", (), number, 0) for number in range(8)]
    found = receipt(tier_counts=counts)
    assert [one["tier"] for one in found["tierCounts"]] == [f"t{number}" for number in range(6)]


def test_an_ignored_memory_counts_as_ignored() -> None:
    ignored = row("i1")
    picked = [Picked(Candidate("i1", 0.5), "ignore", "ranked")]
    found = receipt(picked=picked, rows={"i1": ignored}, store_rows=[ignored], injected=1)
    assert found["whySummary"]["byTier"] == {"must": 0, "nice": 0, "unknown": 0, "ignore": 1}
    assert found["whyTheseIds"][0]["tier"] == "ignore"
    assert found["whyTheseIds"][0]["signals"] == []


def test_reasons_stand_in_the_plugins_order(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    records = [one for one in observed("receipts.jsonl") if one["fn"] == "uniqueReasons"]
    found = {one["id"]: receipt(rejected=one["input"]["reasons"])["rejected"] for one in records}
    assert found == {one["id"]: one["output"] for one in records}
    assert found


def test_the_public_engine_rounds_scores_alike(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    records = [one for one in observed("receipts.jsonl") if one["fn"] == "roundScore"]
    found = {one["id"]: round6(one["input"]["value"]) for one in records}
    assert found == {one["id"]: one["output"] for one in records}
    assert len(found) >= 25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0078125, 0.007813),
        (0.0234375, 0.023438),
        (1 / 61, 0.016393),
        (2 / 61, 0.032787),
        # Written out this is a tie; the double lies below it.
        (3.5e-06, 3e-06),
        (0, 0.0),
        (1, 1.0),
    ],
)
def test_scores_are_rounded_half_up_on_their_exact_value(value: float, expected: float) -> None:
    assert round6(value) == expected


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", 0),
        ("abc", 3),
        ("備份", 2),
        ("é", 1),
        ("e\u0301", 2),
        ("🚀", 2),
        ("a🚀b𠮷", 6),
        ("\uffff", 1),
        ("\ud83d", 1),
    ],
)
def test_a_length_counts_utf16_units(text: str, length: int) -> None:
    assert js_length(text) == length == len(text.encode("utf-16-le", "surrogatepass")) // 2
