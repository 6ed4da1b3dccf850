"""The turn loop: one conversation replayed through every arm, turn by turn and every turn of every role.

It calls systems through the contract (:mod:`lab.systems.contract`) alone. Two rules of text are openclaw's and apply to
every arm: how a prompt names its scope in tags, and how a hard rule is escaped in a block. Arms with an equal retrieval
key share candidates.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from lab.recordings.model import GLOBAL, NICE, Memory, Recording, Turn
from lab.replay.recall_points import RecallPoint
from lab.replay.seat import Failure, Given, Seat, booked
from lab.replay.shared import Retrieved, SharedSearch
from lab.retrieval.faults import NO_FAULTS, FaultPlan
from lab.systems.contract import Arm, ArmInfo, Ask, Candidates, Recall, Writes
from lab.systems.kit import Kit, Tools
from lab.systems.openclaw.recall.scope import ScopePolicy, resolve_scope
from lab.systems.openclaw.recall.wrap import escape

# Where memories come from: the recording, its own tool calls, or the systems that capture.
Source = Literal["given", "tools", "captured"]
SOURCES: tuple[Source, ...] = ("given", "tools", "captured")


class Answered(NamedTuple):
    """What one arm answered at one moment.

    ``scope`` is the turn's own. ``visible`` memories were in its reach, nice ones and ``hard_rules`` among them;
    ``hard_kept`` of these rules stand in what was injected. ``failure`` is why the recall failed, where it did.
    ``fed``: its memories came from outside.
    """

    point: RecallPoint
    arm: str
    recall: Recall
    visible: int
    visible_nice: int
    scope: str = GLOBAL
    hard_rules: int = 0
    hard_kept: int = 0
    failure: Failure | None = None
    fed: bool = True


class Wrote(NamedTuple):
    """What one arm wrote at a turn, after ``context`` had been injected there (blank: nothing was)."""

    arm: str
    turn: Turn
    writes: Writes
    context: str


class Heard(NamedTuple):
    """A system that was asked, the question, and what it chose from (None: it searched by itself)."""

    system: object
    ask: Ask
    found: Candidates | None


@dataclass(frozen=True, slots=True)
class Play:
    """What a conversation is replayed with.

    ``memories`` are the recording's, labelled, in order of birth. ``scoping`` is how scopes are asked for
    (:class:`lab.systems.contract.Ask`); under ``source`` captured, arms that write get nothing from outside, and no
    other arm may write. ``items_only``: nobody will read more of an answer than its items.
    """

    recording: Recording
    memories: Sequence[Memory]
    recall_points: Sequence[RecallPoint]
    tools: Tools
    source: Source = "given"
    faults: FaultPlan = field(default_factory=FaultPlan)
    items_only: bool = False


class Reach:
    """What the memories that are born and not forgotten hold, by scope (None: all of them)."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._memories = Counter[str | None]()
        self._nice = Counter[str | None]()
        self._rules: dict[str | None, list[str]] = {}

    def add(self, memories: Sequence[Memory]) -> None:
        """Take in memories in the order of birth."""
        for memory in memories:
            self.keys.add(memory.key)
            for scope in (memory.scope, None):
                self._memories[scope] += 1
                self._nice[scope] += memory.label == NICE
                if memory.hard_rule:
                    self._rules.setdefault(scope, []).append(_as_injected(memory))

    def remove(self, memories: Sequence[Memory]) -> None:
        """Leave out memories that were forgotten."""
        for memory in memories:
            self.keys.discard(memory.key)
            for scope in (memory.scope, None):
                self._memories[scope] -= 1
                self._nice[scope] -= memory.label == NICE
                if memory.hard_rule:
                    self._rules[scope].remove(_as_injected(memory))

    def of(self, scope: str | None) -> tuple[int, int, list[str]]:
        """How many memories a scope reaches, how many of them are nice, and its hard rules as injected."""
        return self._memories[scope], self._nice[scope], self._rules.get(scope, [])


def _as_injected(memory: Memory) -> str:
    return escape(" ".join(memory.text.split()))


def births(memories: Sequence[Memory]) -> Callable[[int], tuple[list[Memory], list[Memory]]]:
    """A function that is asked turn after turn, and returns what has been born and what forgotten since the last.

    A memory is there at a moment if ``visible_from <= seq < visible_until``. One that is stored and forgotten within
    one turn is born before it goes.
    """
    coming = deque(memories)
    ends = deque(
        sorted(
            (max(memory.visible_from, memory.visible_until), place)
            for place, memory in enumerate(memories)
            if memory.visible_until is not None
        )
    )

    def until(seq: int) -> tuple[list[Memory], list[Memory]]:
        born: list[Memory] = []
        while coming and coming[0].visible_from <= seq:
            born.append(coming.popleft())
        gone: list[Memory] = []
        while ends and ends[0][0] <= seq:
            gone.append(memories[ends.popleft()[1]])
        return born, gone

    return until


def replay(
    play: Play,
    arms: Sequence[Arm],
    wrote: Callable[[Wrote], None] = lambda _: None,
    heard: Callable[[Heard], None] = lambda _: None,
    infos: Sequence[ArmInfo] | None = None,
) -> Generator[Answered]:
    """Yield every answer, moments in order and arms in the order given.

    ``infos`` are what the arms say of themselves, where that is at hand. ``wrote`` hears of what is written, ``heard``
    of every system that was asked, before its answer comes.

    Systems are handed what is born and forgotten before the first turn at which it matters, are asked, and see the
    turn. Under a source other than ``captured`` nobody writes, and turns without a recall change nothing.
    """
    reach = Reach()
    given = Given({memory.key for memory in play.memories}, reach.keys)
    captured = play.source == "captured"
    seats = [
        Seat(arm, info, Kit(play.tools, arm.name, captures=captured and info.writes), given, fed=not writes)
        for arm, info in zip(arms, infos or [arm.describe() for arm in arms], strict=True)
        for writes in (captured and info.writes,)
    ]
    stage = _Stage(play, seats, reach, heard)
    watching = [seat for seat in seats if seat.watches]
    by_turn: dict[int, list[RecallPoint]] = {}
    for point in play.recall_points:
        by_turn.setdefault(point.seq, []).append(point)
    try:
        stage.expect(play.recall_points)
        for turn in play.recording.turns:
            injected: dict[str, str] = {}
            play.tools.clock.now_ms = turn.time_ms
            here = by_turn.get(turn.seq, ())
            if here or captured:
                stage.advance(turn.seq)
            for point in here:
                for answered in stage.answer(point):
                    if point.recalls:
                        injected[answered.arm] = answered.recall.context
                        if answered.recall.writes:
                            wrote(Wrote(answered.arm, turn, answered.recall.writes, ""))
                    yield answered
            for seat in watching:
                writes = seat.observe(turn)
                if writes:
                    wrote(Wrote(seat.name, turn, writes, injected.get(seat.name, "")))
        for point in by_turn.get(len(play.recording.turns), ()):
            play.tools.clock.now_ms = point.now_ms
            stage.advance(point.seq)
            yield from stage.answer(point)
    finally:
        stage.close()


class _Stage:
    """The seats of one conversation with the retrievers that they share."""

    def __init__(self, play: Play, seats: Sequence[Seat], reach: Reach, heard: Callable[[Heard], None]) -> None:
        self._play, self._seats, self._reach, self._heard = play, seats, reach, heard
        self._until = births(play.memories)
        self._told = any(seat.info.needs_gold for seat in seats)
        self._searches: dict[Hashable, SharedSearch] = {}
        for seat in seats:
            shared = seat.shared
            if shared is not None and shared.retrieval_key not in self._searches:
                self._searches[shared.retrieval_key] = SharedSearch(shared)

    def expect(self, recall_points: Sequence[RecallPoint]) -> None:
        """Say what will be asked."""
        texts = [point.text for point in recall_points]
        for search in self._searches.values():
            search.expect(texts)

    def advance(self, seq: int) -> None:
        """Hand over what was born and forgotten by a turn."""
        born, gone = self._until(seq)
        if born:
            for search in self._searches.values():
                search.observe(born)
            for seat in self._seats:
                seat.remember(born)
            self._reach.add(born)
        if gone:
            keys = [memory.key for memory in gone]
            for search in self._searches.values():
                search.forget(keys)
            for seat in self._seats:
                seat.forget(keys)
            self._reach.remove(gone)

    def answer(self, point: RecallPoint) -> Iterator[Answered]:
        """Ask every arm."""
        ask = ask_of(point, self._play.tools.scoping, self._play.faults, items_only=self._play.items_only)
        told = replace(ask, grades=point.probe.grades) if self._told and point.probe else ask
        reachable, nice, rules = self._reach.of(ask.scope)
        # Where scopes are not enforced, the recorded one still says what is a turn's own.
        home = ask.scope or point.scope or GLOBAL
        for seat in self._seats:
            shared = seat.shared
            found: Retrieved | None = None
            if shared is not None:
                search = self._searches.get(shared.retrieval_key)
                found = search.retrieve(ask) if search else Failure("other_retrieval_key", "retrieval_key")
            candidates, retrieved = (found, None) if found is None or isinstance(found, Failure) else found
            recall, failure = seat.ask(told if seat.info.needs_gold else ask, candidates)
            recall = booked(recall, retrieved)
            self._heard(Heard(seat.system, ask, None if isinstance(candidates, Failure) else candidates))
            kept = 0
            bound = rules if seat.fed and recall.status not in ("skipped", "failed") else []
            if bound:
                # A digest folds the lines of a text into one.
                said = " ".join(recall.context.split())
                kept = sum(rule in said for rule in bound)
            held = (reachable, nice) if seat.fed else (0, 0)
            reach = held[0] + len(seat.own), held[1]
            yield Answered(point, seat.name, recall, *reach, home, len(bound), kept, failure, seat.fed)

    def close(self) -> None:
        """Close everything."""
        for seat in self._seats:
            seat.close()
        for search in self._searches.values():
            search.close()


def ask_of(point: RecallPoint, scoping: str, faults: FaultPlan, *, items_only: bool = False) -> Ask:
    """What is asked at a moment.

    A probe from outside has no recorded scope, so it is asked of all; under ``tags`` its own words decide.
    """
    scope, how = None, "open"
    if scoping == "tags":
        scope, how = resolve_scope(None, point.text, ScopePolicy())[1].scope, scoping
    elif scoping == "given" and point.scope is not None:
        scope, how = point.scope, scoping
    return Ask(
        point.key,
        point.text,
        point.now_ms,
        scope,
        point.session,
        not point.recalls,
        how,
        faults.at(point.key) if faults.specs else NO_FAULTS,
        items_only,
    )
