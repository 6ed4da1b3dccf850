"""The loop's side of the contract: the order of calls, and what each system receives."""

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
from lab.replay.loop import TurnWrites, replay
from lab.replay.timeline import births
from lab.systems.contract import NOTHING, ArmInfo, Ask, Item, MemorySystem, Recall, Stored, Writes
from lab.systems.fixed import recall_of
from lab.systems.kit import Kit
from tests.playing import arms_named, keys_of, play, played

ROLES = ("user", "assistant", "user", "tool", "assistant", "user")
TURNS = tuple(Turn(f"c/s/{seq}", seq, "s", role, f"{role} {seq}", 1000 + 10 * seq) for seq, role in enumerate(ROLES))
# Created before the first turn, between two recalls, at one, and after the last; some are forgotten.
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
    """Records its calls; if it captures, it stores every turn."""

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
        self._arm.calls.append(("remember", *(memory.key for memory in memories)))

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


def test_replay_calls_come_in_the_order_of_the_contract() -> None:
    diary = Diary()
    played(RECORDING, [diary], [AFTER], recall_turns="user")
    assert diary.calls == [
        ("open", False, "c"),
        ("remember", "c/s#0"),
        ("recall", "c/s/0", False),
        observed(0),
        observed(1),
        # A memory stored and forgotten in between is first remembered, then forgotten.
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
        # The end: a probe after the last turn, which no system observes.
        ("remember", "c/s#5"),
        ("recall", "c/after", True),
        ("close",),
    ]


def test_replay_probe_on_a_turn_without_recall_precedes_observe() -> None:
    diary = Diary()
    probe = Probe("c/s/3", "c", "c/s/3", None, (Judgement("c/s#0"),))
    played(RECORDING, [diary], [probe], recall_turns="none")
    calls = [call for call in diary.calls if call[0] in ("recall", "observe")]
    assert calls == [observed(0), observed(1), observed(2), ("recall", "c/s/3", True), *map(observed, (3, 4, 5))]


def test_replay_judged_recall_turn_is_queried_once_not_as_probe() -> None:
    diary = Diary()
    played(RECORDING, [diary], [Probe("c/s/2", "c", "c/s/2", None, (Judgement("c/s#0"),))], recall_turns="user")
    assert [call for call in diary.calls if call[0] == "recall"] == [
        ("recall", f"c/s/{seq}", False) for seq in (0, 2, 5)
    ]


def test_replay_captured_feeds_only_systems_that_do_not_write() -> None:
    ours, others = Diary("ours", captures=True), Diary("others")
    wrote: list[TurnWrites] = []
    result = played(
        RECORDING,
        [ours, others, *arms_named("recency")],
        [AFTER],
        recall_turns="user",
        source="captured",
        on_writes=wrote.append,
    )
    assert {call[0] for call in ours.calls} == {"open", "recall", "observe", "close"}
    assert ours.calls[0] == ("open", True, "c")
    assert others.calls[0] == ("open", False, "c")
    given = [key for call in others.calls if call[0] == "remember" for key in call[1:]]
    assert given == [f"c/s#{at}" for at in range(6)]
    assert [call for call in others.calls if call[0] == "forget"] == [
        ("forget", "c/s#1"),
        ("forget", "c/s#4"),
        ("forget", "c/s#3"),
    ]
    # The capturing system answers every recall, and has stored every turn before it.
    mine = [one for one in result if one.arm == "ours"]
    assert [keys_of(one) for one in mine] == [[turn.key for turn in TURNS[:seq]] for seq in (0, 2, 5, 6)]
    assert [one.visible for one in mine] == [0, 2, 5, 6]
    assert [one.visible_nice for one in mine] == [0] * 4
    assert [keys_of(one) for one in result if one.arm == "recency"] == [
        [memory.key for memory in reversed(MEMORIES) if memory.is_visible_at(seq)] for seq in (0, 2, 5, 6)
    ]
    assert [(one.arm, one.turn) for one in wrote] == [("ours", turn) for turn in TURNS]
    # Writes come with the text injected at their turn; a probe injects nothing.
    assert [one.context for one in wrote] == [
        "",
        "",
        "user 0\nassistant 1",
        "",
        "",
        "\n".join(one.text for one in TURNS[:5]),
    ]


@pytest.mark.parametrize("source", ["given", "tools"])
def test_replay_other_sources_let_no_system_write(source: Any) -> None:
    ours = Diary("ours", captures=True)
    wrote: list[TurnWrites] = []
    played(RECORDING, [ours], [AFTER], source=source, on_writes=wrote.append)
    assert ours.calls[0] == ("open", False, "c")
    assert ("remember", "c/s#0") in ours.calls
    assert wrote == []


def test_replay_captured_feeds_memories_at_their_turn() -> None:
    """Turns without a recall included, because a system may write at any turn."""
    others = Diary("others")
    played(RECORDING, [Diary(captures=True), others], recall_turns="none", source="captured")
    calls = [call for call in others.calls if call[0] != "close"]
    assert calls[1:6] == [("remember", "c/s#0"), observed(0), ("remember", "c/s#1"), observed(1), ("remember", "c/s#2")]


def test_replay_ended_early_closes_systems() -> None:
    diary = Diary()
    answers = replay(play(RECORDING), [diary])
    next(answers)
    answers.close()
    assert diary.calls[-1] == ("close",)


def test_replay_on_recall_receives_query_and_candidates() -> None:
    heard: list[Any] = []
    played(RECORDING, [Diary(), *arms_named("hybrid", "recency")], on_recall=heard.append)
    assert [one.ask.turn for one in heard] == [turn.key for turn in TURNS for _ in range(3)]
    for diary, hybrid, recency in zip(*(heard[at::3] for at in range(3)), strict=True):
        assert diary.candidates is None
        # Two arms that share a search have the same candidates.
        assert hybrid.candidates is recency.candidates is not None
        assert type(diary.system) is Written


SOME_SPANS = st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 8)), max_size=12)


@given(SOME_SPANS, st.lists(st.integers(0, 9), min_size=1, max_size=6, unique=True).map(sorted))
def test_births_called_rarely_leave_the_visible_memories(spans: list[tuple[int, int | None]], seqs: list[int]) -> None:
    spans.sort(key=lambda one: one[0])
    memories = [replace(MEMORIES[0], key=str(at), visible_from=a, visible_until=b) for at, (a, b) in enumerate(spans)]
    until, there, ever = births(memories), set[str](), list[str]()
    for seq in seqs:
        born, gone = until(seq)
        ever += [one.key for one in born]
        there |= {one.key for one in born}
        # A memory that was never added is never removed.
        assert {one.key for one in gone} <= there
        there -= {one.key for one in gone}
        assert there == {memory.key for memory in memories if memory.is_visible_at(seq)}
    assert ever == [memory.key for memory in memories if memory.visible_from <= seqs[-1]]
