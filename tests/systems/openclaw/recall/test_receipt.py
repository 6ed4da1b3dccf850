"""The recall receipt key by key, its short form in the prompt, and how it counts numbers and lengths."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from lab.base.utf16 import js_length
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.js import round6
from lab.systems.openclaw.recall.receipt import Final, LaneHit, lifecycle_receipt, prompt_comment, why_tier
from lab.systems.openclaw.select.outcome import Quota, TierCount

LABELS = {"m": "must_remember", "n": "nice_to_have", "i": "ignore", "u": "unknown"}
LOW, HIGH = ReceiptSettings(), ReceiptSettings(verbosity="high")
PREFIX, SUFFIX = "<!-- openclaw-mem-engine:autoRecall ", " -->"


def final(*ids: str, scope: str | None = "global") -> list[Final]:
    """Rows whose first letter is their label."""
    return [Final(identity, LABELS[identity[0]], scope) for identity in ids]


def receipt(settings: ReceiptSettings = LOW, **changes: Any) -> dict[str, Any]:
    """The receipt of a recall without results, with ``changes``."""
    plain: dict[str, Any] = {"scope": "global", "scope_mode": "global", "mode": "tier_first_v1"}
    return lifecycle_receipt(settings, **(plain | changes))


def with_quotas(settings: ReceiptSettings = LOW, **changes: Any) -> dict[str, Any]:
    """The receipt of a recall with quotas in the scope work."""
    plain: dict[str, Any] = {
        "mode": "tier_quota_v1",
        "scope": "work",
        "scope_mode": "inferred",
        "quota": Quota(2, 1, 0, 3),
        "tier_counts": [TierCount("must", ("must_remember",), 9, 2), TierCount("nice", ("nice_to_have",), 1, 1)],
        "fts": [LaneHit("m1", 7.0078125, 0.0), LaneHit("u1", 9.5, 0.0)],
        "vec": [LaneHit("m1", 0.5, 1.0), LaneHit("m2", 0.4, 1.5), LaneHit("n1", 0.3333333, 2.0000001)],
        "final": final("m1", "n1", "u1", "m2", scope="work"),
        "rejected": ["budget_cap", "no_results_must", "budget_cap"],
        "injected": 4,
    }
    return lifecycle_receipt(settings, **(plain | changes))


def parsed(comment: str) -> dict[str, Any]:
    """Return the JSON value inside a comment."""
    assert comment.startswith(PREFIX)
    assert comment.endswith(SUFFIX)
    value: dict[str, Any] = json.loads(comment.removeprefix(PREFIX).removesuffix(SUFFIX))
    return value


def test_receipt_of_a_recall_with_quotas_is_complete() -> None:
    assert with_quotas() == {
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


def test_receipt_of_an_empty_recall_has_empty_lists_and_no_quota() -> None:
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


@pytest.mark.parametrize("reason", ["trivial_prompt", "no_query"])
def test_receipt_of_a_skipped_prompt_has_the_reason_and_no_mode(reason: str) -> None:
    skipped = lifecycle_receipt(LOW, scope="work", scope_mode="explicit", skip_reason=reason, rejected=[reason])
    assert skipped["skipped"] is True
    assert (skipped["skipReason"], skipped["rejected"]) == (reason, [reason])
    assert (skipped["scope"], skipped["scopeMode"]) == ("work", "explicit")
    assert not {"selectionMode", "quota", "fallback", "budget", "workingSet"} & set(skipped)


def test_receipt_quota_follows_the_mode_as_in_the_plugin() -> None:
    keys = list(with_quotas())
    assert keys[keys.index("selectionMode") + 1] == "quota"
    assert keys[-2:] == ["finalCount", "injectedCount"]


def test_receipt_parts_of_other_stages_come_last_in_order() -> None:
    parts = {"fallback": None, "budget": {"maxChars": 1}, "workingSet": {"enabled": False}}
    found = receipt(parts=parts)
    assert list(found)[-4:] == ["injectedCount", *parts]
    assert {name: found[name] for name in parts} == parts


def test_receipt_lane_top_covers_all_searches() -> None:
    """Best score of each id, score descending, then by id; at most three."""
    hits = [("m1", 5.0), ("n2", 1.0), ("u3", 5.0), ("n2", 4.0), ("u1", 4.0), ("m9", 3.0)]
    found = receipt(fts=[LaneHit(identity, score, 0.0) for identity, score in hits])["ftsTop"]
    assert found == [{"id": "m1", "score": 5.0}, {"id": "u3", "score": 5.0}, {"id": "n2", "score": 4.0}]


def test_receipt_lane_top_has_the_distance_of_the_best_score() -> None:
    vec = [LaneHit("m1", 0.2, 4.0), LaneHit("m1", 0.5, 1.0), LaneHit("m1", 0.4, 1.5), LaneHit("", 0.9, 0.1)]
    assert receipt(vec=vec)["vecTop"] == [{"id": "m1", "score": 0.5, "distance": 1.0}]


def test_receipt_sorts_equal_rounded_scores_by_id() -> None:
    fts = [LaneHit("b", 1.00000012, 0.0), LaneHit("a", 1.0, 0.0), LaneHit("c", float("nan"), 0.0)]
    assert receipt(fts=fts)["ftsTop"] == [{"id": "a", "score": 1.0}, {"id": "b", "score": 1.0}, {"id": "c", "score": 0}]


@pytest.mark.parametrize(("max_items", "listed"), [(3, 3), (2.7, 2), (1, 1), (0, 1), (-4, 1), (10, 10), (40, 10)])
def test_receipt_lists_have_one_to_ten_entries_as_configured(max_items: float, listed: int) -> None:
    ids = [f"m{number:02}" for number in range(20)]
    found = receipt(
        ReceiptSettings(max_items=max_items),
        fts=[LaneHit(identity, 1.0, 0.0) for identity in ids],
        vec=[LaneHit(identity, 1.0, 0.0) for identity in ids],
        final=final(*ids),
    )
    assert [len(found[name]) for name in ("ftsTop", "vecTop", "fusedTop", "whyTheseIds")] == [listed] * 4
    # Counts are not limited.
    assert found["finalCount"] == found["whySummary"]["byTier"]["must"] == 20


def test_receipt_lists_at_most_six_tiers() -> None:
    found = receipt(tier_counts=[TierCount(f"t{number}", (), number, 0) for number in range(8)])
    assert [entry["tier"] for entry in found["tierCounts"]] == [f"t{number}" for number in range(6)]
    assert found["tiersSearched"] == [f"t{number}" for number in range(6)]


def test_receipt_lists_at_most_four_labels_at_high_verbosity() -> None:
    count = TierCount("must", ("a", "b", "c", "d", "e"), 1.9, -1)
    (low,), (high,) = (receipt(one, tier_counts=[count])["tierCounts"] for one in (LOW, HIGH))
    assert low == {"tier": "must", "labels": [], "candidates": 1, "selected": 0}
    assert high == low | {"labels": ["a", "b", "c", "d"]}


def test_receipt_counts_other_scopes_as_fallback_and_blank_as_global() -> None:
    rows = [*final("m1", scope="work"), *final("n1"), *final("u1", scope=" \u3000"), *final("m2", scope=None)]
    found = receipt(ReceiptSettings(max_items=4), scope="work", scope_mode="explicit", final=rows)
    assert [(entry["scope"], entry["origin"]) for entry in found["whyTheseIds"]] == [
        ("work", "primary"),
        *[("global", "fallback")] * 3,
    ]
    assert (found["whySummary"]["fromPrimaryScope"], found["whySummary"]["fromFallbackScope"]) == (1, 3)


def test_receipt_counts_a_row_without_id_but_does_not_explain_it() -> None:
    found = receipt(final=[Final("", "must_remember", "global"), *final("n1")])
    assert (found["finalCount"], found["fusedTop"]) == (2, ["", "n1"])
    assert [entry["id"] for entry in found["whyTheseIds"]] == ["n1"]
    assert found["whySummary"]["byTier"] == {"must": 0, "nice": 1, "unknown": 0, "ignore": 0}


def test_receipt_counts_an_ignored_memory_as_ignored() -> None:
    found = receipt(final=final("i1"), injected=1)
    assert found["whySummary"]["byTier"] == {"must": 0, "nice": 0, "unknown": 0, "ignore": 1}
    assert found["whyTheseIds"][0]["tier"] == "ignore"
    assert found["whyTheseIds"][0]["signals"] == []


@pytest.mark.parametrize("injected", [-3, float("nan"), float("inf")])
def test_receipt_invalid_count_is_zero(injected: float) -> None:
    assert receipt(injected=injected)["injectedCount"] == 0


def test_prompt_comment_needs_receipts_with_high_verbosity() -> None:
    plain = with_quotas()
    assert prompt_comment(LOW, plain) == ""
    assert prompt_comment(ReceiptSettings(enabled=False, verbosity="high"), plain) == ""
    assert parsed(prompt_comment(HIGH, plain))


def test_prompt_comment_summarises_the_receipt_in_the_plugins_order() -> None:
    parts = {
        "fallback": {"eligible": True, "consulted": False, "margin": 1},
        "budget": {"maxChars": 1},
        "coldLane": {"consulted": True, "returned": 2, "strategy": "hybrid", "ingested": 7},
        "workingSet": {"enabled": True, "id": "x", "text": "secret"},
    }
    full_receipt = with_quotas(HIGH, parts=parts)
    comment = prompt_comment(HIGH, full_receipt)
    short = parsed(comment)
    same = ["schema", "verbosity", "skipped", "skipReason", "selectionMode", "quota", "tiersSearched", "fusedTop"]
    same += ["whySummary", "whyTheseIds"]
    assert list(short) == [*same, "why", "injectedCount", "fallback", "coldLane", "workingSet"]
    assert {name: short[name] for name in same} == {name: full_receipt[name] for name in same}
    assert short["why"] == full_receipt["whySummary"] | {"ids": full_receipt["whyTheseIds"]}
    assert short["fallback"] == {"eligible": True, "consulted": False}
    assert short["coldLane"] == {"consulted": True, "returned": 2, "strategy": "hybrid"}
    assert short["workingSet"] == {"enabled": True, "id": "x"}
    # Nothing is escaped unnecessarily, and there are no optional spaces.
    assert comment == PREFIX + json.dumps(short, ensure_ascii=False, separators=(",", ":")) + SUFFIX


def test_prompt_comment_leaves_out_missing_parts() -> None:
    short = parsed(prompt_comment(HIGH, receipt(HIGH, parts={"fallback": None, "workingSet": None})))
    assert not {"quota", "fallback", "coldLane", "workingSet"} & set(short)


@pytest.mark.parametrize(
    ("label", "tier"),
    [
        ("must_remember", "must"),
        ("Must-Remember", "must"),
        ("nice_to_have", "nice"),
        ("ignore", "ignore"),
        ("unknown", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
        ("precious", "unknown"),
    ],
)
def test_why_tier_maps_a_stored_label_to_its_tier(label: str | None, tier: str) -> None:
    assert why_tier(label) == tier


def test_why_tier_agrees_with_the_public_engine(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    records = [record for record in observed("receipts.jsonl") if record["fn"] == "toWhyTier"]
    # Values that JSON cannot represent are no labels.
    given = {record["id"]: record["input"].get("label") for record in records}
    found = {name: why_tier(label if isinstance(label, str) else None) for name, label in given.items()}
    assert found == {record["id"]: record["output"] for record in records}
    assert found


def test_receipt_reasons_are_in_the_plugins_order(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    records = [record for record in observed("receipts.jsonl") if record["fn"] == "uniqueReasons"]
    found = {record["id"]: receipt(rejected=record["input"]["reasons"])["rejected"] for record in records}
    assert found == {record["id"]: record["output"] for record in records}
    assert found


def test_round6_agrees_with_the_public_engine(observed: Callable[[str], list[dict[str, Any]]]) -> None:
    records = [record for record in observed("receipts.jsonl") if record["fn"] == "roundScore"]
    found = {record["id"]: round6(record["input"]["value"]) for record in records}
    assert found == {record["id"]: record["output"] for record in records}
    assert len(found) >= 25


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0078125, 0.007813),
        (0.0234375, 0.023438),
        (1 / 61, 0.016393),
        (2 / 61, 0.032787),
        # This is a tie in decimal notation; the double is below it.
        (3.5e-06, 3e-06),
        (0, 0.0),
        (1, 1.0),
    ],
)
def test_round6_rounds_half_up_on_the_exact_value(value: float, expected: float) -> None:
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
def test_js_length_counts_utf16_units(text: str, length: int) -> None:
    assert js_length(text) == length == len(text.encode("utf-16-le", "surrogatepass")) // 2
