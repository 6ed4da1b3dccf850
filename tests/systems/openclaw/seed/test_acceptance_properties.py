"""The acceptance criteria of seed 000 (E-61), as properties over generated stores and conversations."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.contract import Row
from lab.systems.openclaw.config.settings import AutoRecall, Phases
from lab.systems.openclaw.near_duplicate import says_the_same
from lab.systems.openclaw.recall.block import escape
from lab.systems.openclaw.recall.turn import Turn

FEW = settings(max_examples=40)
MANY = settings(max_examples=60)
DECISIONS = {
    *("pinned", "must_quota", "nice_quota", "unknown_quota", "wildcard", "hard_rule"),
    *("recent_quota", "ignore_fill"),
}
SECTIONS = ("global", "work")


def heard(turn: Turn) -> str:
    """Collapse white space in the injected text, as the Working Set does with the lines of a memory."""
    return " ".join(turn.context.split())


def folded(rows: list[Row]) -> dict[str, str]:
    """Return the text of each row as it reads in a block."""
    return {row.key: escape(" ".join(row.text.split())) for row in rows}


# Settings that drop no memory for its age, its distance or the size of the block.
OPEN = {"phases": {"min_relevance": 0.0, "recency_window_days": 0}, "budget": {"max_chars": 12_000}}
FIRST = {"selection_mode": "tier_first_v1"}


# --- 1. many must_remember memories do not displace nice_to_have ones


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
        suppressed = sum(turn.memories.by_id[identity].importance_label == kit.NICE for identity in turn.excluded)
        assert sum(key.startswith(kit.NICE) for key in quota.keys(turn)) >= min(2, nice - suppressed)
    first = kit.Talk(rows, kit.changed(config, recall=FIRST))
    for prompt in prompts:
        keys = first.keys(first.say(f"gateway {prompt}"))
        assert keys
        assert not [key for key in keys if key.startswith(kit.NICE)]


# --- 2. repeated memories decay


@FEW
@given(data=st.data())
def test_without_exact_hits_the_same_memories_do_not_dominate(kit: Any, data: st.DataObject) -> None:
    rows = [
        row
        for label in (kit.MUST, kit.NICE, kit.UNKNOWN)
        for row in kit.pool(data.draw(st.integers(18, 30)), label, data.draw(st.integers(0, 40)))
    ]
    scored = data.draw(st.booleans())
    config = kit.flow(budget=OPEN["budget"], **({} if scored else {"phases": {"score": ()}}))
    talk = kit.Talk(rows, config)
    turns = [talk.say("anything that I had better know about the gateway before lunch") for _ in range(6)]
    assert not any(turn.exempt for turn in turns)
    hot = [set(talk.hot(turn)) for turn in turns]
    assert all(len(injected) == 6 for injected in hot)
    for key in set().union(*hot):
        runs = [len(list(run)) for there, run in groupby(key in injected for injected in hot) if there]
        assert sum(runs) < 6
        assert max(runs) <= 4
    assert all(before != after for before, after in pairwise(hot))
    still = kit.Talk(rows, kit.changed(config, phases={"repeat": False, "score": ("relevance",)}))
    assert len({tuple(still.hot(still.say("anything about the gateway"))) for _ in range(3)}) == 1


# --- 3. the Working Set is not duplicated


@MANY
@given(data=st.data())
def test_no_item_duplicates_a_surviving_line_of_the_working_set(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores())
    drawn = data.draw(kit.knobs())
    config = kit.changed(drawn, recall={"dedupe_backbone": True}, working_set={"enabled": True})
    talk = kit.Talk(rows, config)
    for prompt in data.draw(st.lists(kit.texts(), min_size=1, max_size=3)):
        turn = talk.say(prompt)
        lines = [line for line in turn.built_working_set.lines if line.id] if turn.built_working_set else []
        assert turn.built_working_set is not None
        assert not {pick.candidate.id for pick in turn.hits} & {line.id for line in lines}
        for pick in turn.hits:
            text = turn.memories.by_id[pick.candidate.id].text
            assert not [line for line in lines if says_the_same(text, line.text.removeprefix("- ").rstrip("…"))]


# --- 4. hard rules survive


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_every_hard_rule_of_the_scope_is_injected_if_all_fit(kit: Any, data: st.DataObject) -> None:
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
        rules = folded([row for row in rows if row.hard_rule and row.scope in (scope, "global")])
        assert len(turn.final) + (turn.pinned is not None and config.phases.pinned_counts == "inside") <= max(
            config.max_items, 1
        )
        # The empty block, the title of the Working Set, and the prefix of each rule.
        needed = 118 + 45 + sum(45 + len(text) for text in rules.values())
        if needed <= config.budget.max_chars:
            waiting = {row.key for row in turn.waiting}
            assert [key for key, text in rules.items() if text not in heard(turn) and key not in waiting] == []
            assert len(rules) > config.max_items - 3 or not waiting


# --- 5. one screen


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_receipt_is_small_with_one_decision_for_each_injected_id(kit: Any, data: st.DataObject) -> None:
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
        assert counted["hard_rule"] == sum(rule.id in receipt["decisions"] for rule in turn.hard)
        assert counted["pinned"] == sum(slot.id.startswith("working_set:") for slot in turn.kept)
        assert receipt["injectedCount"] == len(turn.kept)
        pinned = receipt["pinnedByWorkingSet"]
        assert pinned["count"] == len(turn.covered)
        assert pinned["ids"] == list(turn.covered)
        if receipt["verbosity"] == "low":
            assert len(json.dumps(receipt, ensure_ascii=False, separators=(",", ":")).encode()) <= 4096
        # Ids and numbers, no text of a memory.
        written = json.dumps(receipt, ensure_ascii=False)
        assert not [row.key for row in rows if row.text and row.text in written]


# --- 6. one switch disables all phases


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_switching_the_mode_back_disables_all_phases(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(most=16))
    drawn = data.draw(kit.knobs())
    back = kit.changed(drawn, recall=FIRST)
    bare = kit.changed(drawn, phases=Phases(), recall=AutoRecall(max_items=drawn.max_items, **FIRST))
    # The first conversation used the new policy before switching; the second never did.
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
def test_rows_in_another_order_give_the_same_bytes(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(kit.stores(hard=4, least=8))
    config = data.draw(kit.knobs())
    shuffled = data.draw(st.permutations(rows))
    prompts = data.draw(st.lists(kit.texts(), min_size=1, max_size=4))
    scopes = [data.draw(st.sampled_from(SECTIONS)) for _ in prompts]

    def outputs(order: list[Row]) -> list[Any]:
        talk = kit.Talk(order, config)
        turns = [talk.say(prompt, scope=scope) for prompt, scope in zip(prompts, scopes, strict=True)]
        return [(turn.context, json.dumps(turn.receipt), turn.log) for turn in turns]

    assert outputs(rows) == outputs(rows) == outputs(shuffled)
