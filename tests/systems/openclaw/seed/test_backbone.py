"""The pinned Working Set: its content, what survives its cuts, and what it keeps out of the hot lane."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.base.utf16 import js_length
from lab.systems.openclaw.config.settings import WorkingSetSettings
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.near_duplicate import says_the_same
from lab.systems.openclaw.recall.block import escape
from lab.systems.openclaw.seed.working_set import Line, WorkingSet, build_working_set, cut_lines, sections_of

ASK = "tell me of the gateway"


def ids(*keys: str) -> tuple[str, ...]:
    return tuple(map(engine_id, keys))


def working_set_of(kit: Any, rows: list[Any], prompt: str = ASK, **sizes: Any) -> WorkingSet:
    """The Working Set of rows, including hard rules."""
    rules = [row for row in rows if row.hard_rule]
    return build_working_set("global", prompt, kit.NOW, WorkingSetSettings(True, **sizes), rows, rules, 7)


def test_working_set_computed_by_hand(kit: Any) -> None:
    rows = [
        kit.row("d1", "ship on thursdays", category="decision", days=3),
        kit.row("d2", "use sqlite", kit.MUST, category="decision", days=9),
        kit.row("c1", "must be signed by two", category="preference", days=5),
        kit.row("t1", "call Mira", category="todo", days=2),
        kit.row("t0", "stale call", category="todo", days=8),
        kit.row("f1", "must not matter: a fact", category="fact"),
        kit.row("h1", "[HARD]  no\nsecrets in logs", category="fact", hard_rule=True, days=50),
        kit.row("h2", "rules " + "stay whole " * 20, category="todo", hard_rule=True, days=90),
    ]
    built = working_set_of(kit, rows, "tell me:\nwhy though?\nor how？")
    assert built.slot is not None
    assert built.slot[:4] == ("working_set:global", kit.NOW, "other", "must_remember")
    assert built.slot.text.split("\n") == [
        "constraints:",
        "- [HARD] no secrets in logs",
        "- rules " + "stay whole " * 19 + "stay whole",
        "- must be signed by two",
        "goal: tell me: why though? or how？",
        "decisions:",
        "- use sqlite",
        "- ship on thursdays",
        "next_actions:",
        "- call Mira",
        "open_questions:",
        "- why though?",
        "- or how？",
    ]
    assert built.pinned == ids("h1", "h2", "c1", "d2", "d1", "t1")
    counts = {"goal": True, "constraints": 3, "preferences": 0, "decisions": 2, "nextActions": 1, "openQuestions": 2}
    assert sections_of(built.slot.text) == counts


def test_working_set_has_no_line_twice(kit: Any) -> None:
    rows = [
        kit.row("a", "never push to main", category="decision", days=1),
        kit.row("b", "Never  push to MAIN", category="preference", days=2),
        kit.row("c", "never push to main", category="todo", days=3),
    ]
    assert working_set_of(kit, rows).pinned == ids("a")


@pytest.mark.parametrize("prompt", [ASK, "here is the log:", ASK + " " + "x" * 300])
def test_working_set_goal_follows_the_constraints_or_is_first(kit: Any, prompt: str) -> None:
    decided = kit.row("d", "use sqlite", category="decision")
    goal = f"goal: {prompt if len(prompt) <= 200 else prompt[:199] + '…'}"
    assert working_set_of(kit, [decided], prompt).slot.text.split("\n") == [goal, "decisions:", "- use sqlite"]
    bound = kit.row("c", "must sign", category="preference")
    text = working_set_of(kit, [decided, bound], prompt).slot.text
    assert text.split("\n") == ["constraints:", "- must sign", goal, "decisions:", "- use sqlite"]


def test_working_set_of_a_prompt_alone_is_empty(kit: Any) -> None:
    facts = [kit.row("f", "the gateway is blue"), kit.row("t", "old", category="todo", days=9)]
    built = working_set_of(kit, facts, "why though?")
    assert (built.slot, built.pinned, built.holds("why though")) == (None, (), False)
    turn = kit.Talk(facts, kit.flow(working_set={"enabled": True})).say("why though of the gateway?")
    assert (turn.pinned, turn.receipt["workingSet"]["generated"]) == (None, False)
    assert len(turn.hits) == 1


def test_working_set_uses_only_the_newest_rows_of_the_scope(kit: Any) -> None:
    rows = [kit.row(f"k{at}", f"use tool {at}", category="decision", days=at) for at in range(50)]
    rows += [kit.row("w", "use work tool", category="decision", days=-1, scope="work")]
    config = kit.flow(working_set={"enabled": True})
    assert kit.Talk(rows, config).say(ASK).built_working_set.pinned == ids("k0", "k1", "k2")
    assert kit.Talk(rows, config).say(ASK, scope="work").built_working_set.pinned == ids("w")
    everywhere = kit.Talk(rows, config).say(ASK, scoping="open")
    assert everywhere.built_working_set.pinned == ids("w", "k0", "k1")


def test_working_set_does_not_depend_on_the_selection(kit: Any) -> None:
    rows = [kit.row("d", "use sqlite", category="decision"), *kit.pool(20, kit.MUST)]
    talk = kit.Talk(rows, kit.flow(working_set={"enabled": True, "max_goal_chars": 40}))
    first, second = talk.say("gateway"), talk.say("gateway", at=kit.NOW + kit.DAY)
    assert talk.hot(first) != talk.hot(second)
    assert first.pinned.text == second.pinned.text


# --- cuts


@given(
    st.lists(st.tuples(st.text("ab ", min_size=1, max_size=40), st.booleans()), max_size=8),
    st.integers(0, 200),
)
@settings(max_examples=80)
def test_cut_lines_keeps_fitting_lines_with_hard_rules_first(drawn: list[tuple[str, bool]], room: int) -> None:
    rules = [Line(f"- r{at}{text}", f"r{at}", True) for at, (text, hard) in enumerate(drawn) if hard]
    others = [Line(f"- o{at}{text}", f"o{at}") for at, (text, hard) in enumerate(drawn) if not hard]
    all_lines = [
        *([Line("constraints:"), *rules] if rules else ()),
        Line("goal: to see:"),
        *([Line("decisions:"), *others] if others else ()),
    ]
    kept = cut_lines(all_lines, room)
    assert js_length("\n".join(line.text for line in kept)) <= room
    assert kept == [line for line in all_lines if line in kept]
    assert (Line("constraints:") in kept) == bool(set(kept) & set(rules))
    assert (Line("decisions:") in kept) == bool(set(kept) & set(others))
    title = len("constraints:") + 1
    if any(line not in kept for line in rules):
        used = title + sum(len(line.text) + 1 for line in rules if line in kept)
        assert all(used + len(line.text) > room for line in rules if line not in kept) or title > room
    if len(kept) < len(all_lines):
        assert cut_lines(kept, room) == kept


def test_cut_lines_puts_no_line_under_another_title() -> None:
    lines = [Line("decisions:"), Line("- use it", "d"), Line("next_actions:"), Line("- x", "t")]
    # There is room for the short line, but not for its title.
    assert cut_lines(lines, len("decisions:\n- use it\n- x")) == lines[:2]


def test_only_lines_that_survive_the_cut_are_pinned_and_deduplicate(kit: Any) -> None:
    rows = [kit.row(f"d{at}", f"{word} " * 20, category="decision", days=at) for at, word in enumerate(("one", "two"))]
    config = kit.flow(working_set={"enabled": True, "max_chars": 240, "max_item_chars": 100})
    turn = kit.Talk(rows, config).say("x" * 90)
    assert turn.built_working_set.pinned == ids("d0")
    assert turn.excluded == {engine_id("d0"): "id"}
    assert [pick.candidate.id for pick in turn.hits] == list(ids("d1"))
    assert turn.receipt["pinnedByWorkingSet"] == {"count": 1, "ids": list(ids("d0"))}


def test_receipt_pinned_lists_what_the_budget_left(kit: Any) -> None:
    rows = [kit.row(f"d{at}", f"{word} " * 20, category="decision", days=at) for at, word in enumerate(("one", "two"))]
    config = kit.flow(working_set={"enabled": True}, budget={"max_chars": 300})
    turn = kit.Talk(rows, config).say(ASK)
    assert turn.built_working_set.pinned == ids("d0", "d1")
    assert turn.covered == ids("d0")
    assert turn.receipt["pinnedByWorkingSet"] == {"count": 1, "ids": list(ids("d0"))}


# --- the Working Set is not duplicated


def test_duplicates_by_id_and_text_leave_their_slots_to_others(kit: Any) -> None:
    rows = [
        kit.row("d", "the gateway needs two reviewers", category="decision", days=1),
        kit.row("same", "The gateway needs TWO reviewers!", days=2),
        kit.row("zh", "閘道必須兩人審核才能部署", category="decision", days=1),
        kit.row("zh2", "閘道必須兩人審核才能部署喔", days=2),
        kit.row("n1", "gateway logs rotate", days=3),
        kit.row("n2", "gateway runs on arm", days=3),
    ]
    talk = kit.Talk(rows, kit.flow(recall={"max_items": 3}, working_set={"enabled": True}, receipts={"max_items": 10}))
    turn = talk.say(ASK)
    assert talk.keys(turn) == sorted(("n1", "n2"), key=talk.keys(turn).index)
    assert set(talk.keys(turn)) == {"n1", "n2"}
    assert turn.excluded == dict(zip(ids("d", "same", "zh", "zh2"), ("id", "text", "id", "text"), strict=True))
    excluded = turn.receipt["excludedAsBackboneDuplicate"]
    # Of the four, as many as would have had a slot.
    assert excluded["count"] == len(excluded["ids"]) == 2
    assert set(excluded["ids"]) <= set(turn.excluded)
    assert turn.duplicates() == 0
    off = {"dedupe_backbone": False, "max_items": 6}
    kept = talk.say(ASK, config=kit.changed(talk.config, recall=off, phases={"pinned_counts": "extra"}))
    assert len(talk.hot(kept)) == 6
    assert kept.duplicates() == 4
    assert kept.receipt["excludedAsBackboneDuplicate"] == {"count": 0, "ids": []}


@given(data=st.data())
@settings(max_examples=60)
def test_holds_word_count_shortcut_misses_no_duplicate(kit: Any, data: st.DataObject) -> None:
    texts = data.draw(st.lists(kit.texts(1, 4), min_size=1, max_size=3, unique=True))
    rows = [kit.row(f"d{at}", text, category="decision") for at, text in enumerate(texts)]
    built = working_set_of(kit, rows, max_chars=2800)
    full_text = data.draw(st.sampled_from(texts)) + data.draw(st.sampled_from(["", " and more", "嗎"]))
    begin = data.draw(st.integers(0, len(full_text) - 1))
    end = data.draw(st.integers(begin + 1, len(full_text)))
    # Parts of a text that begin and end within words.
    for text in (full_text, full_text[begin:end], data.draw(kit.texts())):
        lines = [line.text.removeprefix("- ").rstrip("…") for line in built.lines if line.id]
        assert built.holds(text) == any(says_the_same(text, line) for line in lines)


def test_holds_a_part_of_a_line_that_begins_and_ends_within_words(kit: Any) -> None:
    line = "never ship on thursdays unless the board has agreed to it in writing"
    built = working_set_of(kit, [kit.row("d", line, category="decision")])
    assert built.holds("ver ship on thursda")
    assert not built.holds("ver ship it thursda")


# --- whether the Working Set takes a slot, and hard rules beside it


@pytest.mark.parametrize(("counts", "items"), [("inside", 4), ("extra", 5)])
def test_working_set_takes_a_slot_or_comes_on_top(kit: Any, counts: str, items: int) -> None:
    rows = [kit.row("d", "use sqlite", category="decision"), *kit.pool(9, kit.NICE)]
    config = kit.flow(working_set={"enabled": True}, phases={"pinned_counts": counts}, recall={"max_items": 5})
    turn = kit.Talk(rows, config).say(ASK)
    assert (len(turn.hits), len(turn.kept)) == (items, items + 1)
    # Nothing is pinned, so no slot is taken.
    assert len(kit.Talk(rows[1:], config).say(ASK).hits) == 5


def test_hard_rules_outside_the_working_set_are_items_with_slots(kit: Any) -> None:
    rules = [kit.row(f"r{at}", f"rule {at} " + "x" * 150, kit.IGNORE, hard_rule=True, days=at) for at in range(3)]
    rows = [*rules, *kit.pool(9, kit.NICE)]
    none = kit.Talk(rows, kit.flow())
    assert none.keys(none.say(ASK))[:3] == ["r2", "r1", "r0"]
    assert len(none.say(ASK).kept) == 6
    turn = kit.Talk(rows, kit.flow(working_set={"enabled": True, "max_chars": 400})).say(ASK)
    assert turn.built_working_set.pinned == ids("r2", "r1")
    assert [row.key for row in turn.hard] == ["r0"]
    assert len(turn.kept) == 6
    off = kit.Talk(rows, kit.flow(phases={"hard_rules": False})).say(ASK)
    assert not {slot.id for slot in off.kept} & set(ids("r0", "r1", "r2"))


def test_hard_rule_with_the_words_of_a_pinned_one_takes_no_slot(kit: Any) -> None:
    rows = [kit.row(key, text, hard_rule=True) for key, text in (("a", "never  push"), ("b", "Never push"))]
    config = kit.flow(working_set={"enabled": True})
    turn = kit.Talk(rows, config).say(ASK)
    assert (turn.hard, turn.hits, len(turn.kept)) == ([], [], 1)
    both = kit.Talk(rows, kit.changed(config, recall={"dedupe_backbone": False})).say(ASK)
    assert len(both.kept) == 3


def test_budget_drops_a_protected_memory_before_hard_lines(kit: Any) -> None:
    """Three protected slots and room for two: the ordinary memory is dropped before a rule in the Working Set."""
    rows = [
        kit.row("r0", "rule one " + "x" * 60, hard_rule=True),
        kit.row("r1", "rule two " + "y" * 60, hard_rule=True),
        kit.row("m", "gateway " * 8),
    ]
    config = kit.flow(working_set={"enabled": True}, budget={"max_chars": 320, "min_recent_slots": 5})
    talk = kit.Talk(rows, config)
    turn = talk.say(ASK)
    assert talk.keys(turn) == []
    assert turn.covered == ids("r0", "r1") or turn.covered == ids("r1", "r0")
    assert all(escape(row.text) in turn.context for row in rows[:2])


def test_budget_keeps_complete_rules_if_not_all_fit(kit: Any) -> None:
    rows = [kit.row(f"r{at}", f"rule {at} " + "x" * 80, hard_rule=True, days=9 - at) for at in range(3)]
    config = kit.flow(working_set={"enabled": True}, budget={"max_chars": 300})
    turn = kit.Talk(rows, config).say(ASK)
    assert turn.covered == ids("r0")
    assert turn.context.endswith("\n- " + rows[0].text + "\n</relevant-memories>")


def test_carried_has_hard_rules_and_lines_that_were_not_cut(kit: Any) -> None:
    rule, long, short = (f"never {one} " + "x" * size for one, size in (("push", 90), ("pull", 90), ("poke", 3)))
    rows = [kit.row("rule", rule, hard_rule=True, category="decision", label=kit.MUST)]
    rows += [kit.row(text[6:10], text, category="decision", label=kit.MUST) for text in (long, short)]
    size = {"enabled": True, "max_item_chars": 60}
    turn = kit.Talk(rows, kit.flow(working_set=size)).say("anything about the gateway that I ought to recall")
    by_id = {row.id: row.key for row in rows}
    assert {by_id[identity] for identity in turn.covered} == {"rule", "pull", "poke"}
    assert {by_id[identity] for identity in turn.carried} == {"rule", "poke"}
