"""Compare made-up transcripts with the lab's engine: what agrees, what differs and why, and how often it searched."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.base.errors import NotComparable, UnusableInput
from lab.canary.agree.agreement import Agreement, agreement
from tests.canary.agree.conftest import IDS, QUERY, TEXTS, Gateway, block, row


def causes(result: Agreement) -> list[str | None]:
    return [each.first.cause if each.first else None for each in result.compared]


def test_search_and_block_of_the_same_engine_agree(gateway: Gateway, written: Any) -> None:
    gateway.says("user", f"{block('rule', 'gate', 'mill')}\n\n{QUERY}")
    gateway.searches(row("rule"), row("gate"), row("mill"))
    result = agreement(written(gateway))
    assert [each.recorded.kind for each in result.compared] == ["injected", "tool"]
    assert [(each.overlap, each.tau, each.is_equal) for each in result.compared] == [(1.0, 1.0, True)] * 2
    assert result.agrees(None)
    assert (result.calls, result.history.user_turns, len(result.history.searching)) == (1, 2, 1)
    assert [each.brought for each in result.compared] == [3, 3]


def test_search_sees_only_what_was_stored_before_it(written: Any) -> None:
    log = Gateway()
    log.says("user", "Please remember what I say about the orchard")
    log.keeps("rule")
    log.searches(row("rule"))
    log.keeps("gate")
    log.deletes("rule")
    log.searches(row("gate"))
    result = agreement(written(log))
    assert causes(result) == [None, None]
    # The memories did not exist at the user's turn.
    assert [each.brought for each in result.compared] == [0, 0]


def test_search_that_returns_a_deleted_memory_names_the_deletion(gateway: Gateway, written: Any) -> None:
    gateway.deletes("rule")
    gateway.searches(row("rule"), row("gate"), row("mill"))
    result = agreement(written(gateway))
    assert causes(result) == ["forgotten"]
    assert result.compared[0].overlap == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"importance_label": "unknown"}, "label"),
        ({"scope": "farm"}, "scope"),
        ({"createdAt": 4_000_000_000_000}, "later"),
        ({"id": "0b0e9a3c-1111-4000-8000-00000000000f"}, None),
        ({"id": "0b0e9a3c-1111-4000-8000-00000000000f", "text": "Another text"}, "absent"),
    ],
)
def test_search_over_a_store_names_what_the_store_says(
    gateway: Gateway, written: Any, export: Any, fields: dict[str, Any], expected: str | None
) -> None:
    gateway.says("user", QUERY)
    gateway.searches(row("rule"), row("gate"), row("mill"))
    result = agreement(written(gateway, memories_from=export(rule=fields, gate={}, mill={})))
    assert causes(result) == [expected]
    assert result.compared[0].by_text == ("id" in fields and "text" not in fields)


def test_memory_deleted_after_the_search_is_forgotten_in_the_store(gateway: Gateway, written: Any, export: Any) -> None:
    gateway.searches(row("rule"), row("gate"), row("mill"))
    gateway.deletes("rule")
    result = agreement(written(gateway, memories_from=export(gate={}, mill={})))
    assert causes(result) == ["forgotten"]


def test_block_with_a_memory_over_the_budget_names_the_budget(gateway: Gateway, written: Any) -> None:
    gateway.says("user", f"{block('rule', 'gate', 'mill')}\n\n{QUERY}")
    config = {"budget": {"maxChars": 300}, "autoRecall": {"maxItems": 3}}
    result = agreement(written(gateway, config))
    assert causes(result) == ["budget"]


def test_block_of_another_number_of_memories_names_the_slot(gateway: Gateway, written: Any) -> None:
    gateway.says("user", f"{block('rule', 'gate', 'mill')}\n\n{QUERY}")
    assert causes(agreement(written(gateway, {"autoRecall": {"maxItems": 1}}))) == ["tier"]
    assert causes(agreement(written(gateway, {"autoRecall": {"enabled": False}}))) == ["off"]


def test_block_before_a_trivial_prompt_names_the_skip(gateway: Gateway, written: Any) -> None:
    gateway.says("user", f"{block('rule')}\n\nThanks!")
    assert causes(agreement(written(gateway))) == ["trivial"]


def test_source_seen_adds_what_searches_returned(gateway: Gateway, written: Any) -> None:
    captured = {"id": "0b0e9a3c-1111-4000-8000-00000000000e", "text": "I prefer clay pots for the orchard"}
    shown = captured | {
        "importance_label": "must_remember",
        "createdAt": 1,
        "scope": "global",
        "category": "preference",
    }
    gateway.searches(row("rule"), shown, row("gate"), limit=3)
    request = written(gateway)
    assert causes(agreement(request)) == ["absent"]
    assert agreement(request, "seen").compared[0].overlap == 1.0


def test_stores_of_all_conversations_are_one(gateway: Gateway, written: Any) -> None:
    other = Gateway("3b0d5a52-0000-4000-8000-000000000002")
    other.says("user", QUERY)
    for _ in range(20):
        other.says("assistant", "…")
    other.searches(row("rule"), row("gate"), row("mill"))
    request = written(gateway)
    path = request.path + "/b.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        file.write(other.text())
    assert causes(agreement(request)) == [None]


def test_searches_that_failed_or_answer_the_host_are_counted_apart(gateway: Gateway, written: Any) -> None:
    gateway.says("user", QUERY)
    gateway.searches(row("rule"), row("gate"), row("mill"))
    gateway.calls("memory_recall", "broken", {"query": QUERY})
    gateway.answers("broken", "memory_recall", {"error": "no table"}, isError=True)
    gateway.says("user", "[OpenClaw heartbeat poll]")
    gateway.searches(row("rule"), row("gate"), row("mill"))
    result = agreement(written(gateway))
    assert (result.calls, result.history.failed, result.history.by_host) == (2, 1, 1)
    assert [each.brought for each in result.compared] == [3, None]


def test_transcript_without_a_recall_is_not_comparable(gateway: Gateway, written: Any) -> None:
    with pytest.raises(NotComparable, match="nothing to compare"):
        agreement(written(gateway))


def test_unusable_sources_are_refused(gateway: Gateway, written: Any, export: Any) -> None:
    gateway.searches(row("rule"))
    with pytest.raises(UnusableInput, match="unknown source 'given '"):
        agreement(written(gateway), "given ")
    with pytest.raises(UnusableInput, match="must name the store"):
        agreement(written(gateway), "given")
    with pytest.raises(UnusableInput, match="omit one"):
        agreement(written(gateway, memories_from=export(rule={})), "tools")


def test_transcript_without_a_stored_memory_asks_for_the_store(written: Any) -> None:
    log = Gateway()
    log.says("user", QUERY)
    log.searches(row("rule"))
    with pytest.raises(UnusableInput, match="--memories-from"):
        agreement(written(log))


def test_json_holds_no_text_unless_wanted(gateway: Gateway, written: Any) -> None:
    gateway.says("user", QUERY)
    gateway.searches(row("gate"), row("rule"), row("mill"))
    result = agreement(written(gateway))
    plain, full = (str(result.as_json(None, texts=texts)) for texts in (False, True))
    assert causes(result) == ["other"]
    assert IDS["gate"] in plain
    assert not any(text in plain for text in (*TEXTS.values(), QUERY))
    assert TEXTS["gate"] in full
    assert QUERY in full


ODD = (None, True, -1, 1e308, 10**400, float("nan"), "", " ", "x", "\ud800", "3", [], {}, [1])


@pytest.mark.parametrize("value", ODD, ids=repr)
@pytest.mark.parametrize("source", ["tools", "seen"])
def test_odd_values_in_a_result_are_no_fault(gateway: Gateway, written: Any, value: Any, source: str) -> None:
    """Every field of a row, of the receipt and of the arguments in turn; what is not usable counts as missing."""
    fields = ("id", "text", "importance_label", "scope", "score", "distance", "createdAt", "category", "trust_tier")
    gateway.keeps("mill", id=value, importance_label=value)
    gateway.says("user", QUERY)
    for name in fields:
        gateway.searches(row("rule", **{name: value}), row("gate"))
    for name in ("model", "scope", "ftsCount", "vecCount"):
        gateway.searches(row("rule"), **{name: value})
    for given in ({"limit": value}, {"query": value}, {"query": QUERY, "scope": value}):
        call = f"call-{len(gateway.lines)}"
        gateway.calls("memory_recall", call, given)
        gateway.answers(call, "memory_recall", {"memories": [row("rule")]})
    result = agreement(written(gateway), source)
    assert len(result.compared) == len(fields) + 7
    json.dumps(result.as_json(None, texts=True))
