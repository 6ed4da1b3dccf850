"""What the loop promises a memory system: which calls come in which order, and who is given what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.golden.model import Judgement, Probe
from lab.recordings.model import Memory, Recording, Turn
from lab.replay.loop import Wrote, births, replay
from lab.systems.contract import NOTHING, ArmInfo, Ask, Item, MemorySystem, Recall, Stored, Writes
from lab.systems.fixed import recall_of
from lab.systems.kit import Kit
from tests.playing import arms_named, keys_of, play, played

ROLES = ("user", "assistant", "user", "tool", "assistant", "user")
TURNS = tuple(Turn(f"c/s/{seq}", seq, "s", role, f"{role} {seq}", 1000 + 10 * seq) for seq, role in enumerate(ROLES))
# Born before the first turn, between two that recall, at one, and after the last; some are forgotten.
SPANS = ((0, None), (1, 2), (2, None), (3, 5), (4, 4), (6, None), (7, None))
MEMORIES = tuple(
    Memory(f"c/s#{at}", text := f"plums {at}", text, born, at, label="nice_to_have", visible_until=until)
    for at, (born, until) in enumerate(SPANS)
)
RECORDING = Recording("c", TURNS, MEMORIES)
AFTER = Probe("c/after", "c", None, "plums", (Judgement("c/s#0"),))
Call = tuple[Any, ...]


@dataclass(frozen=True)
class Diary:
    """Writes down its calls; where it captures, it keeps every turn."""

    name: str = "diary"
    captures: bool = False
    calls: list[Call] = field(default_factory=list, compare=False)

    def describe(self) -> ArmInfo:
        return ArmInfo(self.name, "diary", 6, 6, writes=self.captures)

    def open(self, kit: Kit) -> MemorySystem:
        self.calls.append(("open", kit.captures, kit.conversation))
        return Written(self, kit)


class Written(MemorySystem):
    def __init__(self, arm: Diary, kit: Kit) -> None:
        self._arm, self._kit = arm, kit
        self._kept: list[Item] = []

    def remember(self, memories: Sequence[Memory]) -> None:
        self._arm.calls.append(("remember", *(one.key for one in memories)))

    def forget(self, keys: Sequence[str]) -> None:
        self._arm.calls.append(("forget", *keys))

    def recall(self, ask: Ask) -> Recall:
        assert ask.now_ms == self._kit.clock.now_ms
        self._arm.calls.append(("recall", ask.turn, ask.probe))
        return recall_of(*self._kept)

    def observe(self, turn: Turn) -> Writes:
        assert turn.time_ms == self._kit.clock.now_ms
        self._arm.calls.append(("observe", turn.key))
        if not self._kit.captures:
            return NOTHING
        self._kept.append(Item(turn.key, turn.text))
        return Writes(created=(Stored(turn.key, turn.text, (turn.key,)),))

    def close(self) -> None:
        self._arm.calls.append(("close",))


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


def observed(seq: int) -> Call:
    return ("observe", f"c/s/{seq}")


def test_every_turn_of_every_role_is_observed_after_its_recall_and_memories_come_before_it() -> None:
    diary = Diary()
    played(RECORDING, [diary], [AFTER], recall_turns="user")
    assert diary.calls == [
        ("open", False, "c"),
        ("remember", "c/s#0"),
        ("recall", "c/s/0", False),
        observed(0),
        observed(1),
        # What was stored and forgotten in between is born before it goes.
        ("remember", "c/s#1", "c/s#2"),
        ("forget", "c/s#1"),
        ("recall", "c/s/2", False),
        observed(2),
        observed(3),
        observed(4),
        ("remember", "c/s#3", "c/s#4"),
        ("forget", "c/s#4", "c/s#3"),
        ("recall", "c/s/5", False),
        observed(5),
        # The end: a probe after the last turn, and nobody observes it.
        ("remember", "c/s#5"),
        ("recall", "c/after", True),
        ("close",),
    ]


def test_a_probe_on_a_turn_that_recalls_nothing_is_asked_before_the_turn_is_observed() -> None:
    diary = Diary()
    probe = Probe("c/s/3", "c", "c/s/3", None, (Judgement("c/s#0"),))
    played(RECORDING, [diary], [probe], recall_turns="none")
    calls = [one for one in diary.calls if one[0] in ("recall", "observe")]
    assert calls == [observed(0), observed(1), observed(2), ("recall", "c/s/3", True), *map(observed, (3, 4, 5))]


def test_a_turn_that_recalls_and_is_judged_is_asked_once_and_is_no_probe() -> None:
    diary = Diary()
    played(RECORDING, [diary], [Probe("c/s/2", "c", "c/s/2", None, (Judgement("c/s#0"),))], recall_turns="user")
    assert [one for one in diary.calls if one[0] == "recall"] == [("recall", f"c/s/{seq}", False) for seq in (0, 2, 5)]


def test_who_captures_is_given_nothing_and_the_others_are_given_everything() -> None:
    ours, others = Diary("ours", captures=True), Diary("others")
    wrote: list[Wrote] = []
    found = played(
        RECORDING,
        [ours, others, *arms_named("recency")],
        [AFTER],
        recall_turns="user",
        source="captured",
        wrote=wrote.append,
    )
    assert {one[0] for one in ours.calls} == {"open", "recall", "observe", "close"}
    assert ours.calls[0] == ("open", True, "c")
    assert others.calls[0] == ("open", False, "c")
    given = [key for one in others.calls if one[0] == "remember" for key in one[1:]]
    assert given == [f"c/s#{at}" for at in range(6)]
    assert [one for one in others.calls if one[0] == "forget"] == [
        ("forget", "c/s#1"),
        ("forget", "c/s#4"),
        ("forget", "c/s#3"),
    ]
    # Whoever captures is asked at every moment, and has kept every turn before it.
    mine = [one for one in found if one.arm == "ours"]
    assert [keys_of(one) for one in mine] == [[turn.key for turn in TURNS[:seq]] for seq in (0, 2, 5, 6)]
    assert [one.visible for one in mine] == [0, 2, 5, 6]
    assert [one.visible_nice for one in mine] == [0] * 4
    assert [keys_of(one) for one in found if one.arm == "recency"] == [
        [memory.key for memory in reversed(MEMORIES) if memory.is_visible_at(seq)] for seq in (0, 2, 5, 6)
    ]
    assert [(one.arm, one.turn) for one in wrote] == [("ours", turn) for turn in TURNS]
    # What had been injected at the turn is told with what was written there; a probe injects nothing.
    assert [one.context for one in wrote] == [
        "",
        "",
        "user 0\nassistant 1",
        "",
        "",
        "\n".join(one.text for one in TURNS[:5]),
    ]


@pytest.mark.parametrize("source", ["given", "tools"])
def test_under_another_source_nobody_captures(source: Any) -> None:
    ours = Diary("ours", captures=True)
    wrote: list[Wrote] = []
    played(RECORDING, [ours], [AFTER], source=source, wrote=wrote.append)
    assert ours.calls[0] == ("open", False, "c")
    assert ("remember", "c/s#0") in ours.calls
    assert wrote == []


def test_memories_are_given_at_their_turn_where_others_capture() -> None:
    """At turns without a recall, too: a system may write at any."""
    others = Diary("others")
    played(RECORDING, [Diary(captures=True), others], recall_turns="none", source="captured")
    calls = [one for one in others.calls if one[0] != "close"]
    assert calls[1:6] == [("remember", "c/s#0"), observed(0), ("remember", "c/s#1"), observed(1), ("remember", "c/s#2")]


def test_a_system_is_closed_where_nobody_reads_on() -> None:
    diary = Diary()
    answers = replay(play(RECORDING), [diary])
    next(answers)
    answers.close()
    assert diary.calls[-1] == ("close",)


def test_each_system_is_heard_with_what_it_was_asked_and_chose_from() -> None:
    heard: list[Any] = []
    played(RECORDING, [Diary(), *arms_named("hybrid", "recency")], heard=heard.append)
    assert [one.ask.turn for one in heard] == [turn.key for turn in TURNS for _ in range(3)]
    for diary, hybrid, recency in zip(*(heard[at::3] for at in range(3)), strict=True):
        assert diary.found is None
        # Two arms that share their search choose from the same.
        assert hybrid.found is recency.found is not None
        assert type(diary.system) is Written


SOME_SPANS = st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 8)), max_size=12)


@given(SOME_SPANS, st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True).map(sorted))
def test_births_and_ends_leave_what_is_visible_however_seldom_they_are_asked_for(
    spans: list[tuple[int, int | None]], asked: list[int]
) -> None:
    spans.sort(key=lambda one: one[0])
    memories = [replace(MEMORIES[0], key=str(at), visible_from=a, visible_until=b) for at, (a, b) in enumerate(spans)]
    until, there, ever = births(memories), set[str](), list[str]()
    for seq in asked:
        born, gone = until(seq)
        ever += [one.key for one in born]
        there |= {one.key for one in born}
        # Nobody is asked to forget what was never there.
        assert {one.key for one in gone} <= there
        there -= {one.key for one in gone}
        assert there == {one.key for one in memories if one.is_visible_at(seq)}
    assert ever == [one.key for one in memories if one.visible_from <= asked[-1]]
