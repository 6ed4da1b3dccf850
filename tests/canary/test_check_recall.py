"""Tests of the checks of recall receipts: sound receipts pass, and every kind of damage is found."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from lab.canary.audit.check import KINDS, Damaged, check_marker, check_recall
from lab.canary.audit.tally import Tally

Make = Callable[..., dict[str, Any]]
IDS = ("m1", "m2", "n1", "n2", "u1", "m3")
LEAK = "the customer prefers to be called after nine"


def _set(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(receipt: dict[str, Any]) -> None:
        at: Any = receipt
        for name in path[:-1]:
            at = at[name]
        at[path[-1]] = to

    return change


def _drop(name: str) -> Callable[[dict[str, Any]], None]:
    return lambda receipt: receipt.pop(name)


DAMAGES: list[tuple[str, str, Callable[[dict[str, Any]], None]]] = [
    ("unknown_schema", "the schema", _set("schema", to="openclaw-mem-engine.recall.receipt.v9")),
    ("shape", "finalCount is missing", _drop("finalCount")),
    ("shape", "finalCount has the wrong type", _set("finalCount", to="6")),
    ("shape", "finalCount has the wrong type", _set("finalCount", to=True)),
    ("shape", "skipReason is missing", _drop("skipReason")),
    ("shape", "verbosity", _set("verbosity", to="loud")),
    ("shape", "selectionMode", _drop("selectionMode")),
    ("shape", "skipped and skipReason", _set("skipReason", to="no_query")),
    ("shape", "tierCounts[1] is not an object", _set("tierCounts", 1, to=[])),
    ("shape", "ftsTop[0].score is not a number", _set("ftsTop", 0, "score", to="high")),
    ("shape", "whyTheseIds[0].signals", _set("whyTheseIds", 0, "signals", to=["vec", "fts"])),
    ("shape", "whyTheseIds[0].tier", _set("whyTheseIds", 0, "tier", to="best")),
    ("unknown_reason", "rejected", _set("rejected", to=["no_results_nice", "no_results_must"])),
    ("unknown_reason", "rejected", _set("rejected", to=["budget_cap", "budget_cap"])),
    ("unknown_reason", "rejected", _set("rejected", to=["bad_mood"])),
    ("unknown_reason", "skipReason", _set("skipReason", to="budget_cap")),
    ("counts", "finalCount is negative", _set("finalCount", to=-1)),
    ("counts", "fusedTop has 6 entries", _set("finalCount", to=5)),
    ("counts", "finalCount is 9, but only 6 were selected", _set("finalCount", to=9)),
    ("counts", "whySummary does not add up", _set("whySummary", "byTier", "must", to=4)),
    (
        "counts",
        "have different tier counts",
        _set("whySummary", "byTier", to={"must": 2, "nice": 3, "unknown": 1, "ignore": 0}),
    ),
    ("counts", "injectedCount is 8", _set("injectedCount", to=8)),
    ("counts", "tiersSearched", _set("tiersSearched", to=["must"])),
    ("counts", "tierCounts[0].selected is 3 of 2", _set("tierCounts", 0, "candidates", to=2)),
    ("counts", "origin", _set("whyTheseIds", 0, "origin", to="fallback")),
    ("counts", "fallback", _set("fallback", "consulted", to=True)),
    ("counts", "budget.truncated", _set("budget", "truncated", to=True)),
    ("counts", "budget.droppedIds", _set("budget", "droppedCount", to=1)),
    ("listed", "fusedTop has a duplicate id", _set("fusedTop", 1, to="m1")),
    ("listed", "whyTheseIds and fusedTop have different ids", _set("fusedTop", 0, to="m9")),
    ("listed", "vecTop has a duplicate id", _set("vecTop", 1, "id", to="m1")),
    ("listed", "vecTop[2] has a higher score", _set("vecTop", 2, "score", to=0.9)),
    ("listed", "signals lack a lane", _set("whyTheseIds", 0, "signals", to=["fts"])),
    ("listed", "labels", _set("tierCounts", 0, "labels", to=["a", "b", "c", "d", "e"])),
    ("quota", "quota is missing", _drop("quota")),
    ("quota", "without tier_quota_v1", _set("selectionMode", to="tier_first_v1")),
    ("quota", "wildcardUsed is 0, but the tier counts give 1", _set("quota", "wildcardUsed", to=0)),
    ("text", "an unknown field contains a text", _set("note", to={"inside": [LEAK]})),
    ("text", "fusedTop contains a text", _set("fusedTop", 0, to=LEAK)),
    ("text", "scope contains a text", _set("scope", to="shop\nlamp")),
    ("text", "scope contains a text", _set("scope", to="x" * 201)),
    ("text", "an unknown field contains a text", _set("note", to="他喜欢茶。")),
]


def test_check_recall_sound_receipts_pass(receipt: Make, skip: dict[str, Any]) -> None:
    check_recall(skip)
    check_recall(receipt(IDS))
    check_recall(receipt(IDS[:4], quota=None))
    check_recall(receipt((), candidates=(0, 0, 0)))
    check_recall(receipt(IDS, dropped=2) | {"anotherCount": 3})
    # More final items than listed items.
    check_recall(receipt([f"m{number}" for number in range(8)], candidates=(9, 0, 0)))


@pytest.mark.parametrize(("kind", "what", "change"), DAMAGES, ids=[f"{kind}-{what[:30]}" for kind, what, _ in DAMAGES])
def test_check_recall_finds_each_damage(
    receipt: Make, kind: str, what: str, change: Callable[[dict[str, Any]], None]
) -> None:
    broken = receipt(IDS)
    change(broken)
    with pytest.raises(Damaged) as caught:
        check_recall(broken)
    assert (caught.value.kind, what in caught.value.what) == (kind, True), caught.value.what
    assert kind in KINDS
    assert LEAK not in caught.value.what


STRANGE = (None, True, -1, 0, 10**400, math.nan, math.inf, "", "x", LEAK, [], [None], [[]], [{}], {}, {"id": []})


def test_check_recall_random_damage_raises_only_damaged(receipt: Make) -> None:
    def paths(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
        keys: list[Any] = list(value) if isinstance(value, dict) else []
        keys = list(range(len(value))) if isinstance(value, list) else keys
        return [path for key in keys for path in [(*before, key), *paths(value[key], (*before, key))]]

    sound = receipt(IDS, dropped=1) | {"coldLane": {"consulted": True, "returned": 1}}
    passed, tally, kinds = 0, Tally(), set()
    for path in paths(sound):
        for value in STRANGE:
            broken = copy.deepcopy(sound)
            _set(*path, to=value)(broken)
            try:
                check_recall(broken)
            except Damaged as error:
                kinds.add(error.kind)
                continue
            tally.add(broken, None)
            passed += 1
    assert kinds == {"unknown_schema", "shape", "unknown_reason", "counts", "listed", "quota", "text"}
    assert tally.as_json(0)["recalls"]["answered"] == passed
    # Unknown fields may have any value.
    assert 0 < passed < len(paths(sound)) * len(STRANGE) / 4


def test_check_recall_list_longer_than_limit_is_damaged(receipt: Make) -> None:
    # Eight final items of which six are listed, so no list may be longer than six.
    broken = receipt([f"m{number}" for number in range(8)], candidates=(9, 0, 0))
    broken["ftsTop"] = [{"id": f"x{number}", "score": 0.1} for number in range(7)]
    with pytest.raises(Damaged, match="ftsTop has 7 entries, more than 6"):
        check_recall(broken)


def test_check_recall_skip_with_results_is_damaged(skip: dict[str, Any]) -> None:
    with pytest.raises(Damaged, match="a skipped recall has finalCount"):
        check_recall(skip | {"finalCount": 1})
    with pytest.raises(Damaged, match="a skipped recall has reasons other"):
        check_recall(skip | {"rejected": ["budget_cap"]})


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("contextBudget", {"beforeChars": 1}, "shape"),
        ("contextBudget", {"beforeChars": 2, "afterChars": -1, "droppedCount": 0, "truncatedChars": 0}, "counts"),
        ("autoCapture.receipt", {"schema": "other"}, "unknown_schema"),
        ("todoGuardrail", {"phase": 3}, "shape"),
    ],
)
def test_check_marker_finds_each_damage(name: str, value: dict[str, Any], kind: str) -> None:
    with pytest.raises(Damaged) as caught:
        check_marker(name, value)
    assert caught.value.kind == kind


def test_check_marker_capture_storing_more_than_extracted() -> None:
    sound = {
        "schema": "openclaw-mem-engine.autoCapture.receipt.v1",
        "candidateExtractionCount": 2,
        "filteredOut": {"duplicate": 1},
        "storedCount": 1,
    }
    check_marker("autoCapture.receipt", sound)
    with pytest.raises(Damaged, match="more items were stored"):
        check_marker("autoCapture.receipt", sound | {"storedCount": 3})
