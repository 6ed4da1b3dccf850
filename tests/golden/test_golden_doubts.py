"""Tests of doubts, the warnings about single probes: each is raised where it should be, and not in similar cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.golden.lint import doubts, lint
from lab.golden.model import Aside, GoldenSet, Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn

PORT = "The staging gateway of the Lisbon office listens on port 8080."
TEXTS = (
    PORT,
    f"  {PORT.upper()} ",
    PORT.replace("The staging", "Our staging"),
    "Invoices are sent on Fridays, never on Mondays.",
)


def _recording(**changes: dict[str, Any]) -> Recording:
    """Return a session of five turns with a memory after each of the first four; ``changes`` are by key, ``m0`` …"""
    turns = tuple(Turn(f"c/s/t{at}", at, "s", "user", f"Turn {at}", at, "ops") for at in range(5))
    memories = [Memory(f"m{at}", text, text, at + 1, at, scope="ops") for at, text in enumerate(TEXTS)]
    return Recording("c", turns, tuple(replace(memory, **changes.get(memory.key, {})) for memory in memories))


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


def test_doubts_duplicates_judged_alike_gives_none() -> None:
    assert _doubts({"m0": 2, "m1": 2}, ("m2",)) == []
    assert _doubts({"m3": 2}) == []


@pytest.mark.parametrize(
    ("found", "doubt"),
    [
        (lambda: _doubts({"m3": 1}, type="needs_nothing"), "has the type needs_nothing, but a relevant memory"),
        (lambda: _doubts({}, ("m0",), type="update"), "has the type update, but no relevant memory"),
        (
            lambda: _doubts({"m3": 1}, m3={"scope": "home"}),
            "has the scope ops, but its relevant memory m3 has the scope home",
        ),
        (lambda: _doubts({"m3": 1}, text=f"Is it so? {TEXTS[3]}"), "quotes its relevant memory m3"),
        (
            lambda: _doubts({"m3": 1}, text="invoices are sent on fridays, never on saturdays?"),
            "contains most of its relevant memory m3",
        ),
        (lambda: _doubts({"m3": 1}, m2={"supersedes": ("m3",)}), "judges m3 relevant, which m2 had already superseded"),
        (lambda: _doubts({"m0": 2, "m1": 1}, zero="m2"), "judges m0 2 but m1 1, which has the same text"),
        (lambda: _doubts({"m0": 2}, ("m1", "m2")), "judges m0 2 but m1 forbidden, which has the same text"),
        (lambda: _doubts({"m0": 2}, zero="m1 m2"), "judges m0 2 but m1 0, which has the same text"),
        (lambda: _doubts({"m0": 2}, ("m2",)), "lists m0 but not m1, which has the same text"),
        (lambda: _doubts({"m0": 2, "m1": 2}), "lists m0 but not m2, which has nearly the same text"),
    ],
)
def test_doubts_each_kind_is_raised(found: Any, doubt: str) -> None:
    assert doubt in found()


def test_doubts_invisible_or_superseded_memory_is_no_duplicate() -> None:
    assert _doubts({"m0": 2}, at=1) == []
    assert _doubts({"m0": 2}, m1={"scope": "home"}, m2={"scope": "home"}) == []
    assert _doubts({"m0": 2, "m1": 2}, m2={"text": PORT.replace("8080", "8081")}) == []
    assert _doubts({"m2": 2}, m2={"supersedes": ("m0", "m1")}) == []
    assert _doubts({"m3": 1}, at=2, m2={"supersedes": ("m3",)}) == []
    assert _doubts({"m0": 2}, ("m1",), m1={"supersedes": ("m0",)}, m2={"supersedes": ("m0",)}) == [
        "judges m0 relevant, which m1 had already superseded",
        "judges m0 relevant, which m2 had already superseded",
    ]


def test_doubts_reports_each_duplicate_pair_once() -> None:
    assert _doubts({"m0": 2, "m1": 1}, zero="m2") == ["judges m0 2 but m1 1, which has the same text"]


def test_lint_equal_queries_judged_differently_is_an_error() -> None:
    def asked(name: str, query: str, *keys: str) -> Probe:
        return Probe(name, "c", None, query, tuple(Judgement(key, 1, "x") for key in keys))

    def errors(*probes: Probe) -> tuple[str, ...]:
        return lint(GoldenSet(probes), [_recording()]).errors

    assert errors(asked("a", "Which port?", "m0"), asked("b", "which  PORT?", "m0"), asked("c", "Which?", "m3")) == ()
    assert errors(asked("a", "Which port?", "m0"), asked("b", "which  PORT?", "m3")) == (
        "golden set: probes a and b have the same question, but judge m0 differently",
    )


def test_lint_lists_missing_reasons_last() -> None:
    recording = _recording()
    bare = Probe("c/s/t4", "c", "c/s/t4", None, (Judgement("m3", 1),))
    other = Probe("q", "c", None, TEXTS[3], (Judgement("m3", 1, "x"),))
    warnings = lint(GoldenSet((bare, other)), [recording]).warnings
    assert [line.split("probe ")[-1] for line in warnings] == [
        "q quotes its relevant memory m3",
        "1 conversation: a two-sided sign-flip test needs 6 for p < .05",
        "c/s/t4 gives no reason for m3",
    ]


def test_lint_passes_refused_memories_to_doubts() -> None:
    probe = Probe("c/s/t4", "c", "c/s/t4", None, (Judgement("m0", 2, "x"), Judgement("m1", 2, "x")))
    warnings = lint(GoldenSet((probe,)), [_recording()], Aside({"c/s/t4": {"m2"}}, {})).warnings
    assert not any("nearly" in line for line in warnings)
    assert any("nearly" in line for line in lint(GoldenSet((probe,)), [_recording()]).warnings)


def test_doubts_custom_type_may_have_no_relevant_memory() -> None:
    assert _doubts({}, type="abstention") == _doubts({}, type="needs_nothing") == []
