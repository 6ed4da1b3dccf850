"""What receipts store of the block before and of explanations, by hand and on shipped conversations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.base.token_estimate import tokens
from lab.recordings.model import MUST, NICE, Memory, Recording
from lab.replay.loop import Answered, replay
from lab.replay.plan import make_plan
from lab.replay.receipts import Readings, body_lines, common_prefix, explained, receipts_table, rows_of
from lab.replay.sources import play_of, prepared_sources, tools_of
from lab.replay.timeline import RecallPoint
from lab.runs.request import ReplayRequest
from lab.runs.tables import misshapen
from lab.systems.contract import Item, Recall, Signals
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.block import wrap

RULE = Memory("d/rule", "Never push on a Friday.", "", 0, 0, label=MUST, hard_rule=True)
RECORDING = Recording("d", (), (RULE,))


def _answered(recall: Recall, text: str = "pears", *, recall_turn: bool = True) -> Answered:
    point = RecallPoint("d/1", 1, text, None, 0, recall_turn, None)
    return Answered(point, "arm", recall, 0, 0)


def _prefix(one: str, other: str) -> str:
    length = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), None)
    return one[: min(len(one), len(other)) if length is None else length]


def _block(*texts: str) -> Recall:
    return Recall(context=wrap([("fact", MUST, text) for text in texts]))


def test_readings_share_lines_in_any_order_and_the_start() -> None:
    readings = Readings(RECORDING)
    first = readings.read(_answered(_block("aaaa", "bbbb")), "{}")
    # 24 characters each: "[fact|must_remember] aaaa".
    assert (first.prefix_tokens, first.stable_chars, first.body_chars) == (None, None, 50)
    second = readings.read(_answered(_block("cccc", "aaaa")), "{}")
    assert (second.stable_chars, second.body_chars) == (25, 50)
    shared = wrap([("fact", MUST, "")]).partition("</")[0].rstrip("\n")
    assert second.prefix_tokens == tokens(shared)
    # A query outside the recall turns is read, and is no block before.
    readings.read(_answered(_block("zzzz"), recall_turn=False), "{}")
    assert readings.read(_answered(_block("aaaa", "aaaa")), "{}").stable_chars == 25
    empty = readings.read(_answered(Recall()), "{}")
    assert (empty.prefix_tokens, empty.stable_chars, empty.body_chars) == (0, 0, 0)


@pytest.mark.parametrize(
    ("one", "other", "expected"), [("", "a", ""), ("abc", "abd", "ab"), ("ab", "abc", "ab"), ("b", "ab", "")]
)
def test_common_prefix_equals_the_one_by_hand(one: str, other: str, expected: str) -> None:
    assert common_prefix(one, other) == common_prefix(other, one) == expected


@pytest.mark.parametrize(("text", "rows"), [("", 1), ("a" * 80, 1), ("a" * 81, 2), ("a\n" + "b" * 161, 4)])
def test_rows_of_counts_rows_of_eighty_columns(text: str, rows: int) -> None:
    assert rows_of(text) == rows


def test_a_memory_is_explained_by_any_text_outside_lists_of_search_hits() -> None:
    receipt = {
        "fusedTop": ["a"],
        "ftsTop": [{"id": "b"}],
        "decisions": {"c": "nice_quota"},
        "x": {"ids": ["d", 3, None]},
    }
    ids = [("a", "a"), ("b", "b"), ("c", "other"), ("key of d", "d"), ("d", "d"), ("e", "e")]
    assert explained(receipt, ids) == 3
    assert explained(receipt, ids[:2]) == explained({}, ids) == explained(receipt, []) == 0


def test_readings_count_explained_and_displaced_memories() -> None:
    items = (Item("d/1", "one", signals=Signals("id-1", NICE)), Item("d/2", "two", signals=Signals("id-2", NICE)))
    receipt: dict[str, Any] = {"decisions": {"id-1": "nice_quota"}, "fusedTop": ["id-1", "id-2"], "scope": "d/9"}
    receipt |= {"suppressed": [engine_id("d/8")]}
    recall = Recall(items, 2, "block", receipt, pinned=("d/9",), displaced=("d/8", "d/7"))
    text = json.dumps(receipt)
    reading = Readings(RECORDING).read(_answered(recall), text)
    # d/1, d/8 and d/9 have a reason; d/2 is a search hit alone, and d/7 is nowhere.
    assert (reading.to_explain, reading.explained) == (5, 3)
    assert (reading.receipt_bytes, reading.receipt_lines) == (len(text), rows_of(text))
    without = Readings(RECORDING).read(_answered(Recall(items, 2, "block")), "{}")
    assert (without.to_explain, without.explained, without.receipt_bytes) == (2, None, None)


def test_readings_exempt_hard_rules_and_exact_hits_of_must_items() -> None:
    texts = {"d/rule": RULE.text, "d/tag": "[HARD] Ask first.", "d/id": "Use port ab12-cd34.", "d/no": "Pears."}
    items = [Item(key, text, signals=Signals(key, MUST)) for key, text in texts.items()]
    items.append(Item("d/nice", "Use port ab12-cd34.", signals=Signals("d/nice", NICE)))
    reading = Readings(RECORDING).read(_answered(Recall(tuple(items), 5, "block"), "What is ab12-cd34?"), "{}")
    assert reading.exempt == ["hard_rule", "hard_rule", "identifier", None, None]


def test_readings_of_shipped_conversations_equal_a_second_computation(operators: Path) -> None:
    arms = ("tier_first_v1", "tier_quota_v1", "seed_full", "hybrid", "none")
    plan = make_plan(ReplayRequest(str(operators), "lab", arms, embedder="hashing"))
    recording = plan.recordings[0]
    sources = prepared_sources(plan, [recording])
    answers = list(replay(play_of(plan, recording, tools_of(plan, recording, sources)), plan.arms))
    table = receipts_table(answers, recording, {})
    assert misshapen(table) is None
    before: dict[str, str] = {}
    displaced = 0
    must = {memory.key for memory in recording.memories if memory.label == MUST}
    for row, answer in zip(table.to_pylist(), answers, strict=True):
        context = answer.recall.context
        if answer.arm in before:
            assert row["prefix_tokens"] == tokens(_prefix(before[answer.arm], context))
            assert 0 <= row["stable_chars"] <= row["body_chars"]
            assert (row["stable_chars"] == row["body_chars"]) == (body_lines(context) <= body_lines(before[answer.arm]))
        before[answer.arm] = context
        assert row["explained"] is None or row["explained"] <= row["to_explain"]
        assert (row["receipt_bytes"] is None) == (answer.arm in ("hybrid", "none") and row["receipt"] == "{}")
        assert set(answer.recall.displaced) <= must
        assert {item.id for item in answer.recall.items[: answer.recall.injected]}.isdisjoint(answer.recall.displaced)
        # The old policy displaces nothing.
        assert answer.arm not in ("tier_first_v1", "hybrid", "none") or not answer.recall.displaced
        displaced += len(answer.recall.displaced)
        exempt = [rule for rule, label in zip(row["item_exempt"], row["item_label"], strict=True) if label != MUST]
        assert not any(exempt)
    assert displaced > 0
