"""What a reason means, by name and by words, and what a receipt says of lanes and documents."""

from __future__ import annotations

from typing import Any

import pytest

from lab.canary.audit.check import check_recall
from lab.canary.audit.status import CHOSE, FAULT, UNKNOWN, WORKED, checkable, meaning_of, name_of, reading_of
from lab.systems.openclaw.recall.receipt import REASONS
from tests.canary.conftest import receipt_of


@pytest.mark.parametrize(
    ("reason", "meaning"),
    [
        ("provider_unavailable", FAULT),
        ("embedding_input_too_long", FAULT),
        ("trivial_prompt", CHOSE),
        ("no_query", CHOSE),
        ("low_relevance", CHOSE),
        ("no_results_must", WORKED),
        ("no_results_unknown", WORKED),
        ("budget_cap", WORKED),
        # Of a version that is not known, by its words.
        ("vector_index_timeout", FAULT),
        ("rerankTimedOut", FAULT),
        ("table-not-found", FAULT),
        ("HTTP_ERROR_503", FAULT),
        ("lane.fts.failed", FAULT),
        ("ECONNREFUSED", FAULT),
        # No word of a fault is within these.
        ("quiet_hours", UNKNOWN),
        ("breakdown_by_tier", UNKNOWN),
        ("terror_topic", UNKNOWN),
        ("failover_scope", UNKNOWN),
        ("not_a_founder", UNKNOWN),
    ],
)
def test_meaning_of_a_reason(reason: str, meaning: str) -> None:
    assert meaning_of(reason) == meaning


def test_every_reason_of_the_engine_is_known() -> None:
    assert UNKNOWN not in {meaning_of(reason) for reason in REASONS}


def test_text_in_the_place_of_a_reason_is_not_shown() -> None:
    assert name_of("she said that the search failed") == "unnamed_reason"
    assert name_of("x" * 49) == "unnamed_reason"
    assert name_of("index_timeout") == "index_timeout"


@pytest.mark.parametrize(
    ("changes", "faults", "unknown"),
    [
        ({}, (), ()),
        ({"rejected": ["no_results_must", "provider_unavailable"], "vecTop": []}, ("provider_unavailable",), ()),
        ({"rejected": ["budget_cap", "siesta"]}, (), ("siesta",)),
        ({"vecTop": []}, ("vector_lane_silent",), ()),
        # Nothing was found at all: the scope may have no memory.
        ({"vecTop": [], "ftsTop": []}, (), ()),
        ({"ftsTop": []}, (), ()),
        ({"coldLane": {"consulted": True, "returned": 0, "error": "uv_not_found"}}, ("docs_lane_failed",), ()),
        ({"coldLane": {"consulted": True, "returned": 0, "error": None}}, (), ()),
        ({"skipped": True, "skipReason": "vault_locked"}, ("vault_locked",), ()),
        ({"skipped": True, "skipReason": "siesta", "rejected": ["siesta"]}, (), ("siesta",)),
        ({"rejected": None, "skipReason": 7, "coldLane": [], "vecTop": None}, (), ()),
    ],
)
def test_reading_of_a_receipt(changes: dict[str, Any], faults: tuple[str, ...], unknown: tuple[str, ...]) -> None:
    assert reading_of(receipt_of(["m1", "n1"]) | changes) == (faults, unknown)


def test_receipt_with_what_is_unknown_can_be_checked() -> None:
    error = "Command failed: openclaw-mem docs search where is the spare key of the shed"
    docs = {"consulted": True, "returned": 0, "error": error}
    receipt = receipt_of(["m1"]) | {"rejected": ["budget_cap", "siesta"], "coldLane": docs}
    check_recall(checkable(receipt))
    assert receipt["coldLane"]["error"] == error


def test_skip_for_an_unknown_reason_can_be_checked(skip: dict[str, Any]) -> None:
    check_recall(checkable(skip | {"skipReason": "siesta", "rejected": ["siesta"]}))
