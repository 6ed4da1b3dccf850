"""Every doubt of lint: it is raised where it should be, and not a step beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.golden.doubts import doubts
from lab.golden.judging import Aside
from lab.golden.lint import lint
from lab.golden.model import GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn

PORT = "The staging gateway of the Lisbon office listens on port 8080."
TEXTS = (
    PORT,
    f"  {PORT.upper()} ",
    PORT.replace("The staging", "Our staging"),
    "Invoices are sent on Fridays, never on Mondays.",
)


def _recording(**changes: dict[str, Any]) -> Recording:
    """One session of five turns; a memory is born in each of the first four. ``changes`` are by memory, ``m0`` …"""
    turns = tuple(Turn(f"c/s/t{at}", at, "s", "user", f"Turn {at}", at, "ops") for at in range(5))
    memories = [Memory(f"m{at}", text, text, at + 1, at, scope="ops") for at, text in enumerate(TEXTS)]
    return Recording("c", turns, tuple(replace(one, **changes.get(one.key, {})) for one in memories))


def _doubts(
    relevant: dict[str, int],
    forbidden: tuple[str, ...] = (),
    *,
    at: int = 4,
    text: str = "",
    zero: str = "",
    **more: Any,
) -> list[str]:
    kind = more.pop("type", "todo")
    recording = _recording(**more)
    turn = replace(recording.turns[at], text=text or "Which one?")
    gold = tuple(Judgement(key, grade, "x") for key, grade in relevant.items())
    not_so = tuple(Judgement(key, 1, "x") for key in forbidden)
    probe = Probe(turn.key, "c", turn.key, None, gold, not_so, {"type": kind})
    return list(doubts(probe, recording, turn, zero.split()))


def test_there_is_nothing_to_doubt_where_all_that_says_the_same_is_judged_the_same() -> None:
    assert _doubts({"m0": 2, "m1": 2}, ("m2",)) == []
    assert _doubts({"m3": 2}) == []


@pytest.mark.parametrize(
    ("found", "doubt"),
    [
        (lambda: _doubts({"m3": 1}, type="needs_nothing"), "is of type needs_nothing, and has gold"),
        (lambda: _doubts({}, ("m0",), type="update"), "is of type update, and has no gold"),
        (lambda: _doubts({"m3": 1}, m3={"scope": "home"}), "is of scope ops, its gold m3 of home"),
        (lambda: _doubts({"m3": 1}, text=f"Is it so? {TEXTS[3]}"), "quotes its gold m3"),
        (
            lambda: _doubts({"m3": 1}, text="invoices are sent on fridays, never on saturdays?"),
            "gives most of its gold m3 away",
        ),
        (lambda: _doubts({"m3": 1}, m2={"supersedes": ("m3",)}), "wants m3, which m2 had superseded by then"),
        (lambda: _doubts({"m0": 2, "m1": 1}, zero="m2"), "judges m0 2 and m1 1, which says the same"),
        (lambda: _doubts({"m0": 2}, ("m1", "m2")), "judges m0 2 and m1 forbidden, which says the same"),
        (lambda: _doubts({"m0": 2}, zero="m1 m2"), "judges m0 2 and m1 0, which says the same"),
        (lambda: _doubts({"m0": 2}, ("m2",)), "lists m0, and not m1, which says the same"),
        (lambda: _doubts({"m0": 2, "m1": 2}), "lists m0, and not m2, which says nearly the same"),
    ],
)
def test_one_doubt_is_raised(found: Any, doubt: str) -> None:
    assert doubt in found()


def test_what_is_not_there_yet_or_elsewhere_or_replaced_is_no_twin() -> None:
    assert _doubts({"m0": 2}, at=1) == []
    assert _doubts({"m0": 2}, m1={"scope": "home"}, m2={"scope": "home"}) == []
    assert _doubts({"m0": 2, "m1": 2}, m2={"text": PORT.replace("8080", "8081")}) == []
    assert _doubts({"m2": 2}, m2={"supersedes": ("m0", "m1")}) == []
    assert _doubts({"m3": 1}, at=2, m2={"supersedes": ("m3",)}) == []
    assert _doubts({"m0": 2}, ("m1",), m1={"supersedes": ("m0",)}, m2={"supersedes": ("m0",)}) == [
        "wants m0, which m1 had superseded by then",
        "wants m0, which m2 had superseded by then",
    ]


def test_twins_are_told_once() -> None:
    assert _doubts({"m0": 2, "m1": 1}, zero="m2") == ["judges m0 2 and m1 1, which says the same"]


def test_two_probes_that_ask_the_same_and_want_something_else_are_an_error() -> None:
    def asked(name: str, query: str, *keys: str) -> Probe:
        return Probe(name, "c", None, query, tuple(Judgement(key, 1, "x") for key in keys))

    def errors(*probes: Probe) -> tuple[str, ...]:
        return lint(GoldenSet(probes), [_recording()]).errors

    assert errors(asked("a", "Which port?", "m0"), asked("b", "which  PORT?", "m0"), asked("c", "Which?", "m3")) == ()
    assert errors(asked("a", "Which port?", "m0"), asked("b", "which  PORT?", "m3")) == (
        "golden set: probe b asks what a asks, and judges m0 otherwise",
    )


def test_missing_reasons_come_last() -> None:
    recording = _recording()
    bare = Probe("c/s/t4", "c", "c/s/t4", None, (Judgement("m3", 1),))
    other = Probe("q", "c", None, TEXTS[3], (Judgement("m3", 1, "x"),))
    warnings = lint(GoldenSet((bare, other)), [recording]).warnings
    assert [line.split("probe ")[-1] for line in warnings] == [
        "q quotes its gold m3",
        "1 conversation: a two-sided sign-flip test needs 6 for p < .05",
        "c/s/t4 gives no reason for m3",
    ]


def test_refused_memories_reach_the_doubts() -> None:
    probe = Probe("c/s/t4", "c", "c/s/t4", None, (Judgement("m0", 2, "x"), Judgement("m1", 2, "x")))
    told = lint(GoldenSet((probe,)), [_recording()], Aside({"c/s/t4": {"m2"}}, {})).warnings
    assert not any("nearly" in line for line in told)
    assert any("nearly" in line for line in lint(GoldenSet((probe,)), [_recording()]).warnings)


def test_a_type_of_ones_own_may_have_no_gold() -> None:
    assert _doubts({}, type="abstention") == _doubts({}, type="needs_nothing") == []
