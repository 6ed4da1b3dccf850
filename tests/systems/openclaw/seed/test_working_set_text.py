"""What the Working Set holds: preferences, the older text, and its receipt after cuts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.systems.openclaw.config.resolve import describe, resolve
from lab.systems.openclaw.explain import working_set_lines
from lab.systems.openclaw.memory import engine_id
from lab.systems.openclaw.recall.block import escape
from lab.systems.openclaw.seed.working_set import sections_of

ASK = "tell me of the gateway"
ON: dict[str, Any] = {"enabled": True}
V1 = ON | {"variant": "v1"}


def pinned(turn: Any) -> list[str]:
    slot = turn.working_set_slot
    return [] if slot is None else slot.text.split("\n")


# --- preferences


def test_preferences_without_rule_words_are_pinned_after_constraints(kit: Any) -> None:
    rows = [
        kit.row("plain", "I prefer dark mode", category="preference", days=3),
        kit.row("chinese", "偏好簡短的回答", kit.MUST, category="preference", days=9),
        kit.row("rule", "never call before noon", category="preference", days=5),
        kit.row("decision", "use sqlite", category="decision", days=2),
    ]
    lines = pinned(kit.Talk(rows, kit.flow(working_set=ON)).say(ASK))
    assert lines == [
        *("constraints:", "- never call before noon", f"goal: {ASK}"),
        *("preferences:", "- 偏好簡短的回答", "- I prefer dark mode"),
        *("decisions:", "- use sqlite"),
    ]


def test_preferences_are_limited_like_every_section(kit: Any) -> None:
    rows = [kit.row(f"p{at}", f"I prefer tool {at}", category="preference", days=at) for at in range(5)]
    lines = pinned(kit.Talk(rows, kit.flow(working_set=ON | {"max_items_per_section": 2})).say(ASK))
    assert lines[lines.index("preferences:") + 1 :] == ["- I prefer tool 0", "- I prefer tool 1"]


# --- the older Working Set


def test_v1_has_header_goal_and_stale_todos(kit: Any) -> None:
    rows = [
        kit.row("d", "We must use sqlite", category="decision", days=3),
        kit.row("p", "I prefer dark mode", category="preference", days=2),
        kit.row("t", "call Mira", category="todo", days=30),
    ]
    turn = kit.Talk(rows, kit.flow(working_set=V1)).say("and why?")
    assert pinned(turn) == [
        *("[working_set v1] scope=global", "updatedAt=2026-02-25T06:13:20.000Z", "goal: and why?"),
        *("constraints:", "- We must use sqlite", "decisions:", "- We must use sqlite"),
        *("next_actions:", "- call Mira", "open_questions:", "- and why?"),
    ]
    assert turn.covered == (engine_id("d"), engine_id("t"))
    counts = {"goal": True, "constraints": 1, "preferences": 0, "decisions": 1, "nextActions": 1, "openQuestions": 1}
    assert turn.receipt["workingSet"]["sections"] == counts


def test_v1_is_cut_anywhere_and_pins_whole_lines_only(kit: Any) -> None:
    rows = [kit.row(f"d{at}", f"decision {at} " + "x" * 60, category="decision", days=at) for at in range(3)]
    turn = kit.Talk(rows, kit.flow(working_set=V1 | {"max_chars": 240})).say(ASK)
    assert len(turn.working_set_slot.text) == 240
    assert turn.covered == (engine_id("d0"),)
    assert not pinned(turn)[-1].endswith("x" * 60)


def test_v1_leaves_a_shortened_hard_rule_to_the_items(kit: Any) -> None:
    long, short = "never " + "push " * 30, "never pull"
    rows = [kit.row(text[6:10], text, hard_rule=True, category="decision") for text in (long, short)]
    turn = kit.Talk(rows, kit.flow(working_set=V1 | {"max_item_chars": 60})).say(ASK)
    assert [row.key for row in turn.hard] == ["push"]
    assert turn.covered == (engine_id("pull"),)
    assert all(escape(row.text) in turn.context for row in rows)


@settings(max_examples=60)
@given(data=st.data())
def test_v1_never_breaks_a_block_or_loses_a_hard_rule(kit: Any, data: st.DataObject) -> None:
    rows = data.draw(
        kit.stores(scopes=("global",), body=st.sampled_from(["do it 👍👍👍", "never 請不要", "stay must " * 9]))
    )
    size = data.draw(st.sampled_from((240, 333, 1200)))
    turn = kit.Talk(
        rows, kit.flow(working_set=V1 | {"max_chars": size}, budget={"max_chars": 12_000}, phases={"trust": "off"})
    ).say("why 👍?")
    turn.context.encode()
    assert all(" ".join(escape(row.text).split()) in " ".join(turn.context.split()) for row in rows if row.hard_rule)


def test_variant_is_a_key_of_the_configuration() -> None:
    for profile in ("seed", "upstream"):
        config = resolve({"lab": {"workingSet": "v1"}}, profile)
        assert config.working_set.variant == "v1"
        assert resolve(describe(config), profile) == config


# --- what the receipt says of a Working Set that was cut


def test_sections_of_the_receipt_count_lines_of_the_text(kit: Any) -> None:
    rows = [kit.row(f"d{at}", f"decision {at} " + "x" * 80, category="decision", days=at) for at in range(3)]
    turn = kit.Talk(rows, kit.flow(working_set=ON | {"max_chars": 240})).say(ASK)
    receipt = turn.receipt["workingSet"]
    assert (receipt["sections"]["decisions"], receipt["consumedCount"]) == (2, 2)
    assert receipt["chars"] == len(turn.working_set_slot.text)


def test_sections_are_counted_after_the_budget_shortened_the_text(kit: Any) -> None:
    rows = [kit.row(f"d{at}", f"decision {at} " + "x" * 80, category="decision", days=at) for at in range(3)]
    turn = kit.Talk(rows, kit.flow(working_set=ON, budget={"max_chars": 400})).say(ASK)
    receipt = turn.receipt["workingSet"]
    assert turn.receipt["budget"]["truncated"]
    assert 0 < receipt["sections"]["decisions"] == receipt["consumedCount"] < 3
    assert receipt["chars"] == len(turn.working_set_slot.text)


@settings(max_examples=60)
@given(data=st.data())
def test_receipt_counts_what_is_in_the_block(kit: Any, data: st.DataObject) -> None:
    config = kit.changed(data.draw(kit.knobs()), working_set=data.draw(st.sampled_from((ON, V1))))
    turn = kit.Talk(data.draw(kit.stores()), config).say(ASK)
    receipt, slot = turn.receipt["workingSet"], turn.working_set_slot
    assert receipt["sections"] == sections_of(slot.text if slot else "")
    assert receipt["consumedCount"] == len(turn.covered) == turn.receipt["pinnedByWorkingSet"]["count"]
    explained = " ".join(" ".join(working_set_lines(turn, full=False, with_text=False)).split())
    assert f", {receipt['chars']} characters" in explained or not receipt["generated"]


# --- receipts under the old policy


def test_tier_first_with_a_working_set_explains_each_item(kit: Any) -> None:
    rows = [kit.row("d", "use sqlite", kit.MUST, category="decision"), *kit.pool(4, kit.MUST)]
    old = kit.flow(recall={"selection_mode": "tier_first_v1"})
    turn = kit.Talk(rows, kit.changed(old, working_set=ON)).say(ASK)
    assert set(turn.receipt["decisions"]) == {slot.id for slot in turn.kept}
    assert turn.receipt["decisions"]["working_set:global"] == "pinned"
    assert turn.receipt["pinnedByWorkingSet"] == {"count": 1, "ids": [engine_id("d")]}
    assert turn.receipt["suppressedByRepeat"] == {"count": 0, "ids": [], "penalized": 0}
    assert turn.receipt["excludedAsBackboneDuplicate"] == {"count": 0, "ids": []}
    plain = kit.Talk(rows, old).say(ASK)
    assert not {"decisions", "pinnedByWorkingSet"} & set(plain.receipt)


# --- persistence


@pytest.mark.parametrize("variant", ["current", "v1"])
def test_persisted_is_true_if_the_row_was_stored(kit: Any, variant: str) -> None:
    rows = [kit.row("d", "use sqlite", category="decision")]
    config = kit.flow(working_set=ON | {"variant": variant})
    stored: list[Any] = []
    turn = kit.Talk(rows, config, write=stored.append).say(ASK)
    (row,) = stored
    assert turn.receipt["workingSet"]["persisted"]
    assert (row.id, row.text, row.scope) == ("working_set:global", turn.working_set_slot.text, "global")
    assert (row.importance_label, row.importance, row.trust_tier) == (kit.MUST, 0.96, "system_working_set")
    for other in (kit.changed(config, working_set={"persist": False}), kit.changed(config, read_only=True)):
        assert not kit.Talk(rows, other, write=stored.append).say(ASK).receipt["workingSet"]["persisted"]
    assert not kit.Talk(rows, config).say(ASK).receipt["workingSet"]["persisted"]
    assert len(stored) == 1
