"""What seed 000 accepts the new policy by (E-61), over stores and conversations that nobody chose."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import AutoRecall, Phases
from lab.systems.openclaw.near_duplicate import says_the_same
from lab.systems.openclaw.recall.turn import Turn
from lab.systems.openclaw.recall.wrap import escape

FEW = settings(max_examples=40, deadline=None, derandomize=True)
MANY = settings(max_examples=100, deadline=None, derandomize=True)
DECISIONS = {
    *("pinned", "must_quota", "nice_quota", "unknown_quota", "wildcard", "repeat_exempt", "hard_rule"),
}
SECTIONS = ("global", "work")


def heard(turn: Turn) -> str:
    """The injected text with every run of white space as one blank: a digest folds the lines of a memory."""
    return " ".join(turn.context.split())


def folded(rows: list[Row]) -> dict[str, str]:
    """The text of each row as it reads in a block."""
    return {one.key: escape(" ".join(one.text.split())) for one in rows}


# Drops no memory for its age, its distance or the size of the block.
OPEN = {"phases": {"min_relevance": 0.0, "recency_window_days": 0}, "budget": {"max_chars": 12_000}}
FIRST = {"selection_mode": "tier_first_v1"}


# --- 1. many must_remember memories do not keep nice_to_have ones out


@FEW
@given(data=st.data())
def test_must_saturation_no_longer_suppresses_nice(kit: Any, data: st.DataObject) -> None:
    nice = data.draw(st.integers(2, 8))
    rows = kit.pool(data.draw(st.integers(50, 60)), kit.MUST, category="decision") + kit.pool(nice, kit.NICE)
    config = kit.changed(data.draw(kit.knobs()), recall={"max_items": data.draw(st.integers(3, 6))}, **OPEN)
    prompts = data.draw(st.lists(kit.texts(), min_size=1, max_size=4))
    quota = kit.Talk(rows, config)
    for prompt in prompts:
        turn = quota.say(f"gateway {prompt}")
        said = sum(turn.memories.by_id[one].importance_label == kit.NICE for one in turn.excluded)
        assert sum(key.startswith(kit.NICE) for key in quota.keys(turn)) >= min(2, nice - said)
    first = kit.Talk(rows, kit.changed(config, recall=FIRST))
    for prompt in prompts:
        keys = first.keys(first.say(f"gateway {prompt}"))
        assert keys
        assert not [key for key in keys if key.startswith(kit.NICE)]


# --- 2. winners decay


@FEW
@given(data=st.data())
def test_without_exact_hits_the_same_memories_do_not_dominate(kit: Any, data: st.DataObject) -> None:
    rows = [
        one
        for label in (kit.MUST, kit.NICE, kit.UNKNOWN)
        for one in kit.pool(data.draw(st.integers(18, 30)), label, data.draw(st.integers(0, 40)))
    ]
    scored = data.draw(st.booleans())
    config = kit.flow(budget=OPEN["budget"], **({} if scored else {"phases": {"score": ()}}))
    talk = kit.Talk(rows, config)
    turns = [talk.say("anything that I had better know about the gateway before lunch") for _ in range(6)]
    assert not any(turn.exempt for turn in turns)
    hot = [set(talk.hot(turn)) for turn in turns]
    assert all(len(one) == 6 for one in hot)
    for key in set().union(*hot):
        runs = [len(list(run)) for there, run in groupby(key in one for one in hot) if there]
        assert sum(runs) < 6
        assert max(runs) <= 4
    assert all(before != after for before, after in pairwise(hot))
    still = kit.Talk(rows, kit.changed(config, phases={"repeat": False}))
    assert len({tuple(still.hot(still.say("anything about the gateway"))) for _ in range(3)}) == 1


# --- 3. what the digest says is not said again


@MANY
@given(data=st.data())
def test_no_memory_says_what_a_surviving_line_of_the_digest_says(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores())
    drawn = data.draw(kit.knobs())
    config = kit.changed(drawn, recall={"dedupe_backbone": True}, working_set={"enabled": True})
    talk = kit.Talk(rows, config)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        turn = talk.say(prompt)
        lines = [line for line in turn.built_working_set.lines if line.id] if turn.built_working_set else []
        assert turn.built_working_set is not None
        assert not {one.candidate.id for one in turn.hits} & {line.id for line in lines}
        for one in turn.hits:
            text = turn.memories.by_id[one.candidate.id].text
            assert not [line for line in lines if says_the_same(text, line.text.removeprefix("- ").rstrip("…"))]


# --- 4. hard rules survive


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_every_hard_rule_of_the_scope_is_in_every_turn_that_has_room_for_them_all(
    kit: Any, data: st.DataObject
) -> None:
    rows = data.draw(kit.stores(hard=4, least=8))
    config = kit.changed(
        data.draw(kit.knobs()),
        phases={"hard_rules": True, "trust": "off"},
        budget={"max_chars": data.draw(st.sampled_from((300, 400, 600, 1800)))},
    )
    talk = kit.Talk(rows, config)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        scope = data.draw(st.sampled_from(SECTIONS))
        turn = talk.say(prompt, scope=scope)
        rules = folded([one for one in rows if one.hard_rule and one.scope == scope])
        # The empty block, the title of the digest, and what stands before each rule.
        needed = 118 + 45 + sum(45 + len(text) for text in rules.values())
        if needed <= config.budget.max_chars:
            assert [key for key, text in rules.items() if text not in heard(turn)] == []


# --- 5. one screen


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_the_receipt_is_small_and_has_one_decision_for_each_injected_id(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(least=8))
    config = kit.changed(data.draw(kit.knobs()), phases={"tier_mode": "live"})
    talk = kit.Talk(rows, config)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        turn = talk.say(prompt, scope=data.draw(st.sampled_from(SECTIONS)))
        receipt = turn.receipt
        assert receipt is not None
        assert set(receipt["decisions"]) == {slot.id for slot in turn.kept}
        assert set(receipt["decisions"].values()) <= DECISIONS
        counted = Counter(receipt["decisions"].values())
        assert counted["hard_rule"] == sum(one.id in receipt["decisions"] for one in turn.hard)
        assert counted["pinned"] == sum(slot.id.startswith("working_set:") for slot in turn.kept)
        assert receipt["injectedCount"] == len(turn.kept)
        pinned = receipt["pinnedByWorkingSet"]
        assert pinned["count"] == len(turn.digested)
        assert pinned["ids"] == list(turn.digested)[:3]
        if receipt["verbosity"] == "low":
            assert len(json.dumps(receipt, ensure_ascii=False, separators=(",", ":")).encode()) <= 4096
        # Ids and numbers, no text of a memory.
        written = json.dumps(receipt, ensure_ascii=False)
        assert not [one.key for one in rows if one.text and one.text in written]


# --- 6. one switch takes all of it back


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_switching_the_mode_back_makes_every_other_knob_of_the_phases_mute(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(most=16))
    drawn = data.draw(kit.knobs())
    back = kit.changed(drawn, recall=FIRST)
    bare = kit.changed(drawn, phases=Phases(), recall=AutoRecall(max_items=drawn.max_items, **FIRST))
    # The first talk has the new policy behind it when it switches; the second never had it.
    switched, never = kit.Talk(rows, back), kit.Talk(rows, bare)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=2)):
        switched.say(prompt, config=drawn)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        after, before = switched.say(prompt), never.say(prompt)
        assert after.context == before.context
        assert after.receipt == before.receipt
        assert json.dumps(after.receipt) == json.dumps(before.receipt)
        assert after.log == before.log


# --- 7. same input, same bytes


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_the_same_rows_in_another_order_give_the_same_bytes(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(hard=4, least=8))
    config = data.draw(kit.knobs())
    shuffled = data.draw(st.permutations(rows))
    prompts = data.draw(st.lists(kit.texts(), min_size=1, max_size=4))
    scopes = [data.draw(st.sampled_from(SECTIONS)) for _ in prompts]

    def told(order: list[Row]) -> list[Any]:
        talk = kit.Talk(order, config)
        turns = [talk.say(prompt, scope=scope) for prompt, scope in zip(prompts, scopes, strict=True)]
        return [(turn.context, json.dumps(turn.receipt), turn.log) for turn in turns]

    assert told(rows) == told(rows) == told(shuffled)
