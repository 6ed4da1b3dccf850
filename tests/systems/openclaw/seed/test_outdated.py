"""Memories that no longer hold: replaced by a newer one, or past the day that they name as their end."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from lab.systems.openclaw.seed.outdated import APART, last_day, replaced
from lab.systems.openclaw.select.outcome import Quota

OLD = "The spare key of the boiler room hangs behind the porter's door."
NEW = "The spare key of the boiler room now hangs in the laundry cupboard."
OTHERS = ("Hedges are cut in autumn.", "Gate 4 squeaks.", "Newts live in the pond.", "Bulbs arrive on Thursday.")
NAMES = ("ash", "birch", "cedar", "dogwood", "elder", "fir", "gorse", "hazel")


def _ms(day: str) -> int:
    return int(datetime.fromisoformat(f"{day}T12:00:00+00:00").timestamp() * 1000)


def _rows(kit: Any, *texts: str, **fields: Any) -> list[Any]:
    """Rows of these texts, each a day newer than the one before."""
    return [kit.row(f"k{at}", text, days=50.0 - at, **fields) for at, text in enumerate(texts)]


def test_a_newer_memory_of_nearly_the_same_words_replaces_an_older_one(kit: Any) -> None:
    rows = _rows(kit, OLD, *OTHERS, NEW)
    assert replaced(rows, rows, 0.16) == {rows[0].id: rows[-1].id}
    # The order of the ranking does not matter, and age does.
    assert replaced(rows[::-1], rows, 0.16) == {rows[0].id: rows[-1].id}
    assert replaced(_rows(kit, NEW, *OTHERS, OLD), rows, 0.16).keys() == {kit.row("k0", NEW).id}
    assert replaced(rows, rows, 0) == {}
    assert replaced(rows, rows, 0.9) == {}


@pytest.mark.parametrize(
    "texts",
    [
        ("鍋爐室的備用鑰匙掛在警衛室的門後。", "鍋爐室的備用鑰匙改掛在洗衣間的櫃子裡。"),
        ("Invoices for Marlow go out on the 3rd to accounts@marlow.", "Invoices for Marlow go out on the 5th by post."),
    ],
)
def test_chinese_and_values_are_compared_alike(kit: Any, texts: tuple[str, str]) -> None:
    rows = _rows(kit, texts[0], *OTHERS, texts[1])
    assert replaced(rows, rows, 0.16) == {rows[0].id: rows[-1].id}


def test_what_all_memories_share_is_no_evidence(kit: Any) -> None:
    rows = _rows(kit, *(f"The boiler room key story, chapter {name}." for name in NAMES))
    assert replaced(rows, rows, 0.16) == {}


def test_memories_that_were_stored_together_replace_nothing(kit: Any) -> None:
    old, others = kit.row("old", OLD, days=9.0), _rows(kit, *OTHERS)
    for apart, found in ((1.1, True), (0.9, False)):
        new = kit.row("new", NEW, days=9.0 - apart * APART / kit.DAY)
        rows = [old, *others, new]
        assert replaced(rows, rows, 0.16) == ({old.id: new.id} if found else {})


@pytest.mark.parametrize("change", [{"scope": "work"}, {"text": f"{NEW} {'And so on. ' * 12}"}])
def test_another_scope_and_a_long_text_replace_nothing(kit: Any, change: dict[str, str]) -> None:
    newer = kit.row("k9", change.get("text", NEW), days=1.0, scope=change.get("scope", "global"))
    rows = [*_rows(kit, OLD, *OTHERS), newer]
    assert replaced(rows, rows, 0.16) == {}


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("The bridge is closed until 20 March, so the drive takes longer.", "2026-03-20"),
        ("Until noon on Friday 27 March the lamps are on loan.", "2026-03-27"),
        ("Dr Osei covers the Tuesdays through June 12.", "2026-06-12"),
        ("The office is in Dock Street till 2026-04-30.", "2026-04-30"),
        ("The show runs 3 April to 17 May in the back room.", "2026-05-17"),
        ("Until Jan 3rd the gate stays shut.", "2027-01-03"),
        ("Valid up to 9 May 2028.", "2028-05-09"),
        ("4/20 到 5/4 挖水管，改走中正路。", "2026-05-04"),
        ("到 9/11（五）為止有接駁車。", "2026-09-11"),
        ("合約只到 2026年3月20日。", "2026-03-20"),
        # When something takes place is not when it ends.
        ("家屬座談會改到 4/11（六）09:30。", None),
        ("The vet comes on 20 March.", None),
        ("They open until 17:00 on weekdays.", None),
        ("Deliver up to Marlow 3 times a week.", None),
        ("It runs until Sept 4.", "2026-09-04"),
        ("THE SALE RUNS UNTIL MAY 3RD", "2026-05-03"),
        # Some write so what never ends.
        ("The licence is valid until 31 December 9999.", "9999-12-31"),
        ("It holds until 31 February.", None),
        (f"Until 20 March the bridge is closed. {'x' * 200}", None),
    ],
)
def test_a_text_names_its_last_day(text: str, day: str | None) -> None:
    end = last_day(text, _ms("2026-03-02"))
    # 36 hours after the day began in UTC.
    assert end == (None if day is None else _ms(day) + 24 * 3_600_000)


@pytest.mark.parametrize("created_at", [-1, 10**18])
def test_a_time_that_is_none_names_no_day(created_at: int) -> None:
    assert last_day("Until 20 March the bridge is closed.", created_at) is None


def _flow(kit: Any, **phases: Any) -> Any:
    return kit.flow(
        phases={"receipt": "screen", "score": ("relevance",)} | phases, recall={"max_items": 3, "quota": Quota(6, 0, 6)}
    )


def test_a_replaced_memory_ranks_last_and_is_not_deleted(kit: Any) -> None:
    others = (kit.row(f"m{at}", f"In the room: {text}", days=80.0) for at, text in enumerate(OTHERS))
    rows = [*_rows(kit, OLD, NEW), *others]
    prompt = "where does the spare key of the boiler room hang?"
    before = kit.Talk(rows, _flow(kit))
    assert {"k0", "k1"} <= {*before.hot(before.say(prompt))}
    talk = kit.Talk(rows, _flow(kit, replaced=0.16))
    turn = talk.say(prompt)
    assert "k1" in talk.hot(turn)
    assert "k0" not in talk.hot(turn)
    assert turn.outdated == {rows[0].id: rows[1].id}
    # Where nothing else is found, it is still injected.
    alone = kit.Talk(rows[:2], _flow(kit, replaced=0.1))
    assert alone.hot(alone.say(prompt)) == ["k1", "k0"]


def test_a_receipt_says_why_a_must_memory_lost_its_slot(kit: Any) -> None:
    rows = [
        *_rows(kit, OLD, NEW, label=kit.MUST),
        *(kit.row(f"m{at}", f"The boiler room {text}", kit.MUST) for at, text in enumerate(OTHERS)),
    ]
    turn = kit.Talk(rows, _flow(kit, replaced=0.16)).say("where does the spare key of the boiler room hang?")
    assert turn.receipt["notInjected"][rows[0].id] == "outdated"


def test_a_memory_that_has_ended_ranks_last_from_the_day_after(kit: Any) -> None:
    rows = [
        kit.row("k0", "Until 10 February the pool opens at nine.", days=60.0),
        kit.row("k1", "The pool opens at six."),
    ]
    talk = kit.Talk(rows, _flow(kit, ended=True))
    assert talk.say("when does the pool open?", at=_ms("2026-02-09")).outdated == {}
    turn = talk.say("when does the pool open?", at=_ms("2026-02-20"))
    assert talk.hot(turn) == ["k1", "k0"]
    assert turn.outdated == {rows[0].id: ""}


@pytest.mark.parametrize("enabled", [True, False])
def test_hard_rules_hold(kit: Any, enabled: bool) -> None:
    rows = [
        kit.row("k0", f"Until 10 February: {OLD}", days=60.0, hard_rule=True, category="decision"),
        kit.row("k1", NEW, category="decision"),
    ]
    config = kit.changed(_flow(kit, replaced=0.1, ended=True), working_set={"enabled": enabled})
    turn = kit.Talk(rows, config).say("the spare key of the boiler room?")
    held = turn.synthesised if enabled else [row.id for row in turn.hard]
    assert rows[0].id in held
    assert "behind the porter" in turn.context


def test_hard_rule_without_a_slot_of_its_own_keeps_its_rank(kit: Any) -> None:
    text = "Until {} February the spare key of room {} hangs outside."
    rows = [kit.row(f"k{at}", text.format(at + 1, at), kit.MUST, hard_rule=True, days=70.0) for at in range(5)]
    rows.append(kit.row("n", "The spare key of the car is with Bo."))
    config = kit.changed(_flow(kit, ended=True), recall={"quota": Quota(6, 1, 6)})
    turn = kit.Talk(rows, config).say("the spare key of room 1?")
    assert turn.waiting
    assert {row.id for row in turn.waiting} & turn.factors.keys()
    assert turn.outdated == {}


def test_the_working_set_leaves_outdated_lines_out(kit: Any) -> None:
    ended = kit.row("k9", "Until 1 February no deliveries.", days=40.0, category="decision")
    rows = [*_rows(kit, OLD, NEW, category="decision"), ended]
    without = kit.Talk(rows, kit.flow(working_set={"enabled": True})).say("what was decided?")
    config = kit.flow(working_set={"enabled": True}, phases={"replaced": 0.16, "ended": True})
    turn = kit.Talk(rows, config).say("what was decided?")
    assert {rows[0].id, rows[-1].id} <= {*without.synthesised}
    assert {rows[0].id, rows[-1].id}.isdisjoint(turn.synthesised)
    assert rows[-2].id in turn.synthesised
