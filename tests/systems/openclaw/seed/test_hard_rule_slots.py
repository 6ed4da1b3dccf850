"""Slots of hard rules outside the Working Set (E-65), and global rules in every scope (E-58)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.retrieval.contract import Row
from lab.retrieval.silence import Silence
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.seed.hot_lane import rule_slots

ASK = "anything about the gateway that I ought to recall before lunch"


def rules(kit: Any, count: int, **fields: Any) -> list[Row]:
    """Rules that share no word with the prompt; ``r0`` is the newest."""
    return [
        kit.row(f"r{at}", f"clause number{at}", kit.MUST, days=at + 1, hard_rule=True, **fields) for at in range(count)
    ]


@pytest.mark.parametrize(
    ("count", "room", "nice", "slots"),
    [(9, 6, 2, 4), (3, 6, 2, 3), (9, 6, 0, 6), (9, 5, 1, 4), (9, 1, 2, 1), (9, 0, 2, 0), (0, 6, 2, 0), (5, 2, 2, 1)],
)
def test_rule_slots_leave_the_floor_of_nice_and_keep_one(count: int, room: int, nice: int, slots: int) -> None:
    assert rule_slots(count, room, nice) == slots


@pytest.mark.parametrize(("nice", "kept"), [(8, 4), (1, 5), (0, 6)])
def test_nine_rules_leave_slots_to_the_nice_memories_that_exist(kit: Any, nice: int, kept: int) -> None:
    rows = [*rules(kit, 9), *kit.pool(nice, kit.NICE), *kit.pool(3, kit.UNKNOWN)]
    turn = kit.Talk(rows, kit.flow(budget={"max_chars": 12_000}, receipts={"max_items": 10})).say(ASK)
    assert len(turn.final) == 6
    # The newest rules have slots, the receipt lists the others.
    assert {row.key for row in turn.hard} == {f"r{at}" for at in range(kept)}
    assert sum(pick.decision == "nice_quota" for pick in turn.hits) == min(2, nice)
    waiting = turn.receipt["hardRulesWaiting"]
    assert (waiting["count"], set(waiting["ids"])) == (9 - kept, {engine_id(f"r{at}") for at in range(kept, 9)})


def test_rule_without_a_slot_competes_by_relevance(kit: Any) -> None:
    relevant = kit.row("relevant", ASK, kit.MUST, days=10, hard_rule=True)
    # The slots are left for the fallback scope's nice memories, and the primary scope comes first.
    rows = [*rules(kit, 8), relevant, *kit.pool(2, kit.NICE, scope="work")]
    turn = kit.Talk(rows, kit.flow(budget={"max_chars": 12_000}, scopes={"fallback_scopes": ("work",)})).say(ASK)
    assert [row.key for row in turn.waiting] == ["relevant", "r7", "r6", "r5", "r4"]
    assert turn.hits[0].candidate.id == relevant.id
    assert len(turn.final) == 6


def test_rule_slots_leave_one_to_each_nice_memory_up_to_the_minimum(kit: Any) -> None:
    relevant = kit.row("relevant", ASK, kit.MUST, days=90, hard_rule=True)
    rows = [*rules(kit, 8), relevant, *kit.pool(1, kit.NICE)]
    talk = kit.Talk(rows, kit.flow(recall={"max_items": 4}, budget={"max_chars": 12_000}))
    for _ in range(3):
        turn = talk.say(ASK)
        assert len(turn.final) == 4
    # One nice memory leaves three slots to rules; the old rule is none of them.
    assert "relevant" not in {row.key for row in turn.hard}
    quota = kit.changed(
        talk.config, recall={"max_items": 4, "quota": talk.config.auto_recall.quota._replace(nice_min=2)}
    )
    more = kit.Talk([*rows, *kit.pool(1, kit.NICE, 1)], kit.changed(quota, recall={"include_unknown_fallback": False}))
    assert len(more.say(ASK).hard) == 2


def test_rules_that_fit_leave_no_trace_in_the_receipt(kit: Any) -> None:
    turn = kit.Talk([*rules(kit, 4), *kit.pool(4, kit.NICE)], kit.flow()).say(ASK)
    assert len(turn.hard) == 4
    assert "hardRulesWaiting" not in turn.receipt


def test_own_rules_have_slots_before_global_ones(kit: Any) -> None:
    everywhere = [kit.row(f"g{at}", f"everywhere{at}", kit.MUST, days=0.1, hard_rule=True) for at in range(3)]
    rows = [*rules(kit, 3, scope="work"), *everywhere, *kit.pool(4, kit.NICE, scope="work")]
    turn = kit.Talk(rows, kit.flow()).say(ASK, scope="work")
    assert [row.key for row in turn.hard][:3] == ["r2", "r1", "r0"]
    assert [row.scope for row in turn.hard] == ["work"] * 3 + ["global"]
    assert turn.receipt["hardRulesWaiting"]["count"] == 2


@pytest.mark.parametrize("working_set", [False, True])
def test_global_rule_holds_in_every_scope_and_another_scopes_rule_does_not(kit: Any, working_set: bool) -> None:
    rows = [
        kit.row("everywhere", "never push to the origin", hard_rule=True),
        kit.row("elsewhere", "never open the attic", hard_rule=True, scope="home"),
        kit.row("w", "gateway of work", scope="work"),
    ]
    talk = kit.Talk(rows, kit.flow(working_set={"enabled": working_set}))
    for scope in ("work", "global", "nowhere"):
        turn = talk.say(ASK, scope=scope)
        assert "never push to the origin" in turn.context
        assert "never open the attic" not in turn.context


def test_silent_recall_reserves_no_slot_for_nice_memories(kit: Any) -> None:
    config = replace(kit.flow(budget={"max_chars": 12_000}), silence=Silence("words", 1.0))
    turn = kit.Talk([*rules(kit, 9), *kit.pool(8, kit.NICE)], config).say(ASK)
    assert turn.silent
    assert {row.key for row in turn.hard} == {f"r{at}" for at in range(6)}
