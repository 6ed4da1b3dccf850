"""A receipt on one screen: every item has its decision, every displaced must memory its reason, in 24 lines of 80."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.errors import UnusableInput
from lab.canary.audit.audit import last_receipts
from lab.canary.audit.check import check_recall
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.receipt import REASONS
from lab.systems.openclaw.recall.screen import COLUMNS, LINES, MEANING, receipt_screen

ASK = "tell me of the gateway"
SET = {"enabled": True}
# What the JSON of a receipt at low verbosity may take, with ten ids in each list.
MOST_BYTES = 6_000


def shown(receipt: dict[str, Any]) -> list[str]:
    lines = receipt_screen(receipt)
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS
    return lines


def test_screen_computed_by_hand(kit: Any) -> None:
    must = [kit.row(f"m{at}", f"gateway port {at} {'abc'[at] * 9}", kit.MUST, days=at + 1) for at in range(3)]
    rows = [kit.row("d", "use sqlite", kit.MUST, category="decision"), kit.row("n", "the gateway is slow"), *must]
    config = kit.flow(working_set=SET, phases={"score": ()}, recall={"max_items": 4})
    turn = kit.Talk(rows, config, write=lambda row: None).say("gateway port?")
    first, second, third = sorted(engine_id(f"m{at}") for at in range(3))
    lines = shown(turn.receipt)
    assert lines[:4] == [
        "tier_quota_v1, must <= 2, nice >= 2, unknown <= 1; scope global (global)",
        f"selected: must 2 of {turn.receipt['tierCounts'][0]['candidates']}, nice 1 of 1, unknown 0 of 0",
        "injected: 4",
        "  working_set:global                   pinned",
    ]
    assert sorted(lines[4:6]) == sorted(
        f"  {identity} must_quota fts+vec"
        for identity in (first, second, third)
        if identity in turn.receipt["decisions"]
    )
    assert lines[6] == f"  {engine_id('n')} nice_quota fts+vec"
    assert lines[7:] == [
        "budget_cap: all slots were taken, so the other candidates are left out",
        f"Working Set: {len(turn.pinned.text)} characters: 1 decisions, 1 openQuestions, stored",
        f"  {engine_id('d')[:13]}",
        "not injected, though first in the must tier:",
        *(f"  {identity} quota" for identity in (first, second, third) if identity not in turn.receipt["decisions"]),
        f"budget: {len(turn.context)} of 1800 characters",
    ]


@settings(max_examples=60)
@given(data=st.data())
def test_receipt_explains_every_item_within_a_screen(kit: Any, data: st.DataObject) -> None:
    config = data.draw(kit.knobs())
    talk = kit.Talk(data.draw(kit.stores()), config)
    for _ in range(2):
        turn = talk.say(ASK)
        receipt = turn.receipt
        items = [slot.id for slot in turn.kept]
        assert set(receipt["decisions"]) == set(items)
        assert {pick.candidate.id for pick in turn.final} == {entry["id"] for entry in receipt["whyTheseIds"]}
        assert not set(receipt["notInjected"]) & set(items)
        text = "\n".join(shown(receipt))
        assert all(identity in text for identity in items)
        assert len(js_json(receipt).encode()) <= MOST_BYTES
        check_recall(json.loads(js_json(receipt)))


@pytest.mark.parametrize(
    ("reason", "config", "rows"),
    [
        ("quota", {}, ()),
        ("filtered", {"phases": {"recency_window_days": 2}}, ()),
        ("budget", {"budget": {"max_chars": 300}}, ()),
        ("stale_todo", {}, ("todo",)),
        ("backbone_duplicate", {"working_set": SET}, ("decision",)),
    ],
)
def test_displaced_must_memory_has_its_reason(
    kit: Any, reason: str, config: dict[str, Any], rows: tuple[str, ...]
) -> None:
    must = [kit.row(f"m{at}", f"gateway case {at} " + "so " * 20, kit.MUST, days=9 + at) for at in range(6)]
    special = [kit.row(category, f"gateway {category} case", kit.MUST, days=20, category=category) for category in rows]
    if reason == "backbone_duplicate":
        special.append(kit.row("copy", "gateway decision case", kit.MUST))
    turn = kit.Talk([*must, *special, *kit.pool(6, kit.NICE)], kit.flow(**config)).say("gateway case")
    reasons = turn.receipt["notInjected"]
    assert not set(reasons) & {slot.id for slot in turn.kept}
    assert reason in reasons.values()


def test_tier_first_displaces_no_must_memory(kit: Any) -> None:
    must = [kit.row(f"m{at}", f"gateway case {at}", kit.MUST, days=9 + at) for at in range(9)]
    config = kit.flow(recall={"selection_mode": "tier_first_v1"}, budget={"max_chars": 1800})
    turn = kit.Talk([*must, *kit.pool(6, kit.NICE)], config).say("gateway case")
    assert len(turn.final) == config.max_items
    assert turn.receipt["notInjected"] == {}


def test_repeated_must_memory_says_repeat(kit: Any) -> None:
    rows = [*kit.pool(4, kit.MUST), *kit.pool(4, kit.NICE)]
    talk = kit.Talk(rows, kit.flow())
    assert "repeat" not in talk.say(ASK).receipt["notInjected"].values()
    again = talk.say(ASK).receipt
    assert [key for key, why in again["notInjected"].items() if why == "repeat"] == again["suppressedByRepeat"]["ids"][
        :2
    ]


def test_listed_receipt_keeps_the_limit_of_the_plugin(kit: Any) -> None:
    config = kit.flow(phases={"receipt": "listed"})
    receipt = kit.Talk(kit.pool(9, kit.NICE), config).say(ASK).receipt
    assert (len(receipt["fusedTop"]), len(receipt["whyTheseIds"])) == (3, 3)
    assert "notInjected" not in receipt
    assert len(receipt["decisions"]) == 6


def test_screen_of_skipped_and_of_public_receipts(kit: Any, observed: Any) -> None:
    assert shown(kit.Talk([], kit.flow()).say("ok").receipt)[1:] == ["skipped: trivial_prompt"]
    outputs = [record.get("output") for record in observed("receipts.jsonl")[:200]]
    receipts = [output["receipt"] for output in outputs if isinstance(output, dict) and "receipt" in output]
    receipts = [receipt for receipt in receipts if isinstance(receipt, dict) and "fusedTop" in receipt]
    assert receipts
    for receipt in receipts:
        shown(receipt)


def test_last_receipts_of_a_log(kit: Any, tmp_path: Path) -> None:
    receipts = [kit.Talk(kit.pool(at, kit.NICE), kit.flow()).say(ASK).receipt for at in (1, 2, 3)]
    log = tmp_path / "gateway.log"
    lines = [f"openclaw-mem-engine:autoRecall.receipt {js_json(receipt)}" for receipt in receipts]
    log.write_text("\n".join(["start", *lines, "openclaw-mem-engine:autoRecall.receipt {", ""]), "utf-8")
    assert last_receipts(str(log), 2) == [(3, receipts[1], None), (4, receipts[2], None)]
    log.write_text("nothing\n", "utf-8")
    with pytest.raises(UnusableInput, match="has no valid recall receipt"):
        last_receipts(str(log), 1)


def test_last_receipts_count_the_two_of_one_turn_once(kit: Any, tmp_path: Path) -> None:
    first, second = (kit.Talk(kit.pool(at, kit.NICE), kit.flow()).say(ASK).receipt for at in (1, 2))
    turns = [(1, first), (1, first), (9, second), (10, second)]
    log = tmp_path / "gateway.log"
    log.write_text(
        "\n".join(
            f"2026-03-01T09:00:{at:02}.{place}00Z openclaw-mem-engine:autoRecall.receipt {js_json(receipt)}"
            for place, (at, receipt) in enumerate(turns)
        ),
        "utf-8",
    )
    assert last_receipts(str(log), 2) == [(1, first, 2), (3, second, 4)]


def test_screen_explains_wildcards_reasons_and_hidden_items(kit: Any) -> None:
    receipt = kit.Talk(kit.pool(9, kit.NICE), kit.flow(phases={"receipt": "listed"})).say(ASK).receipt
    receipt = {name: value for name, value in receipt.items() if name != "decisions"}
    receipt["quota"] = {"mustMax": 2, "niceMin": 2, "unknownMax": 1, "wildcardUsed": 1}
    lines = shown(receipt | {"rejected": list(REASONS)})
    assert lines[1].endswith("; 1 of them as wildcard")
    assert f"  and {receipt['injectedCount'] - 3} more, which the receipt does not list" in lines
    assert set(REASONS) == set(MEANING)
    assert "budget_cap: all slots were taken, so the other candidates are left out" in lines
