"""The turn loop: replay one conversation through every arm, with every turn of every role.

It calls systems only through their contract (:mod:`lab.systems.contract`). Two text rules of openclaw apply to every
arm: how a prompt names its scope in tags, and how a hard rule is escaped in the injected text. Arms with equal
retrieval keys share candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from lab.recordings.model import GLOBAL, NICE, Memory, Recording, Turn
from lab.replay.guarded import Failure, Given, Retrieved, Seat, SharedSearch, booked, is_foreign
from lab.replay.timeline import RecallPoint, timeline
from lab.replay.unlisted import Texts
from lab.retrieval.faults import NO_FAULTS, FaultPlan
from lab.systems.contract import Arm, ArmInfo, Ask, Candidates, Recall, Writes
from lab.systems.kit import Kit, Tools
from lab.systems.openclaw.recall.block import escape
from lab.systems.openclaw.recall.scope import ScopePolicy, resolve_scope

# Where memories come from (E-81): the recording, its own tool calls, or the systems that capture.
Source = Literal["given", "tools", "captured"]
SOURCES: tuple[Source, ...] = ("given", "tools", "captured")


class Answered(NamedTuple):
    """The answer of one arm at one recall point.

    ``scope`` is the turn's. ``visible`` is the number of memories that the arm could recall, including those that it
    captured; ``visible_nice`` is how many of the provided ones are labelled nice_to_have. ``hard_rules`` is the number
    of visible hard rules (0 if the recall was skipped or failed), ``hard_kept`` how many of them are in the injected
    text. ``failure`` is None unless the recall failed. ``fed``: the arm receives memories from outside.
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


class TurnWrites(NamedTuple):
    """What one arm wrote at a turn; ``context`` is the text that it had injected at that turn, blank if none.

    ``derived``: the recall wrote it, such as a Working Set, so it is no capture of the turn.
    """

    arm: str
    turn: Turn
    writes: Writes
    context: str
    derived: bool = False


class RecallCall(NamedTuple):
    """A recall of a system: the query, and its shared candidates (None if the system searches by itself)."""

    system: object
    ask: Ask
    candidates: Candidates | None


@dataclass(frozen=True, slots=True)
class Play:
    """The inputs of the replay of one conversation.

    ``memories`` are labelled and ordered by creation. Under ``source`` captured, arms that write receive no memories,
    and no other arm may write. ``items_only``: only the items of answers are used.
    """

    recording: Recording
    memories: Sequence[Memory]
    recall_points: Sequence[RecallPoint]
    tools: Tools
    source: Source = "given"
    faults: FaultPlan = field(default_factory=FaultPlan)
    items_only: bool = False


class Reach:
    """The visible memories: their keys and, by scope (None: all scopes), their counts and hard rules."""

    def __init__(self) -> None:
        self.keys: set[str] = set()
        self._memories = Counter[str | None]()
        self._nice = Counter[str | None]()
        self._rules: dict[str | None, list[str]] = {}

    def add(self, memories: Sequence[Memory]) -> None:
        """Add memories in the order of creation."""
        self.keys.update([memory.key for memory in memories])
        self._memories.update([memory.scope for memory in memories])
        self._nice.update([memory.scope for memory in memories if memory.label == NICE])
        self._memories[None] += len(memories)
        self._nice[None] += sum(memory.label == NICE for memory in memories)
        for memory in (memory for memory in memories if memory.hard_rule):
            for scope in (memory.scope, None):
                self._rules.setdefault(scope, []).append(_as_injected(memory))

    def remove(self, memories: Sequence[Memory]) -> None:
        """Remove forgotten memories."""
        for memory in memories:
            self.keys.discard(memory.key)
            for scope in (memory.scope, None):
                self._memories[scope] -= 1
                self._nice[scope] -= memory.label == NICE
                if memory.hard_rule:
                    self._rules[scope].remove(_as_injected(memory))

    def of(self, scope: str | None) -> tuple[int, int, list[str]]:
        """Return the number of memories in a scope, of those labelled nice_to_have, and its hard rules as injected.

        Rules of scope ``global`` hold in every scope, as the measure WrongScope takes global memories for everyone's.
        """
        everywhere = [] if scope in (None, GLOBAL) else self._rules.get(GLOBAL, [])
        return self._memories[scope], self._nice[scope], [*self._rules.get(scope, []), *everywhere]


def _as_injected(memory: Memory) -> str:
    return escape(" ".join(memory.text.split()))


def replay(
    play: Play,
    arms: Sequence[Arm],
    on_writes: Callable[[TurnWrites], None] = lambda _: None,
    on_recall: Callable[[RecallCall], None] = lambda _: None,
    infos: Sequence[ArmInfo] | None = None,
) -> Generator[Answered]:
    """Yield every answer, ordered by recall point, then arm.

    ``infos`` are the descriptions of the arms, if known. ``on_writes`` receives what arms write; ``on_recall`` receives
    every recall, before its answer is yielded.

    At each turn, systems receive created and forgotten memories, answer, and observe the turn. Unless the source is
    ``captured``, no system may write, and memories are passed on only at turns with a recall point.
    """
    reach = Reach()
    given = Given({memory.key for memory in play.memories}, reach.keys)
    captured = play.source == "captured"
    seats = [
        Seat(arm, info, Kit(play.tools, arm.name, captures=captured and info.writes), given, fed=not writes)
        for arm, info in zip(arms, infos or [arm.describe() for arm in arms], strict=True)
        for writes in (captured and info.writes,)
    ]
    texts = given.texts if any(map(is_foreign, arms)) else None
    stage = _Stage(play, seats, reach, texts, on_recall)
    watching = [seat for seat in seats if seat.watches]
    try:
        stage.expect(play.recall_points)
        for entry in timeline(play.recording, play.memories, play.recall_points, every_turn=captured):
            turn = entry.turn
            injected: dict[str, str] = {}
            play.tools.clock.now_ms = entry.now_ms
            stage.advance(entry.born, entry.gone)
            for point in entry.points:
                for answered in stage.answer(point):
                    if turn is not None and point.is_recall_turn:
                        injected[answered.arm] = answered.recall.context
                        if answered.recall.writes:
                            on_writes(TurnWrites(answered.arm, turn, answered.recall.writes, "", derived=True))
                    yield answered
            if turn is None:
                continue
            for seat in watching:
                writes = seat.observe(turn)
                if writes:
                    on_writes(TurnWrites(seat.name, turn, writes, injected.get(seat.name, "")))
    finally:
        stage.close()


class _Stage:
    """The arms of one conversation, one :class:`Seat` each, and the retrievers that they share."""

    def __init__(
        self,
        play: Play,
        seats: Sequence[Seat],
        reach: Reach,
        texts: Texts | None,
        on_recall: Callable[[RecallCall], None],
    ) -> None:
        self._play, self._seats, self._reach, self._on_recall = play, seats, reach, on_recall
        self._texts = texts
        self._needs_gold = any(seat.info.needs_gold for seat in seats)
        self._searches: dict[Hashable, SharedSearch] = {}
        for seat in seats:
            shared = seat.shared
            if shared is not None and shared.retrieval_key not in self._searches:
                self._searches[shared.retrieval_key] = SharedSearch(shared)

    def expect(self, recall_points: Sequence[RecallPoint]) -> None:
        """Give all retrievers the texts of the coming queries."""
        texts = [point.text for point in recall_points]
        for search in self._searches.values():
            search.expect(texts)

    def advance(self, born: Sequence[Memory], gone: Sequence[Memory]) -> None:
        """Pass on the memories created and forgotten."""
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
        if self._texts is not None:
            for memory in born:
                self._texts.add(memory.key, memory.text, memory.index_text)
            for memory in gone:
                self._texts.remove(memory.key)

    def answer(self, point: RecallPoint) -> Iterator[Answered]:
        """Yield the answer of every arm at a recall point."""
        ask = ask_of(point, self._play.tools.scoping, self._play.faults, items_only=self._play.items_only)
        graded = replace(ask, grades=point.probe.grades) if self._needs_gold and point.probe else ask
        reachable, nice, rules = self._reach.of(ask.scope)
        # If scopes are not enforced, the recorded scope still decides which memories count as of another scope.
        home = ask.scope or point.scope or GLOBAL
        for seat in self._seats:
            shared = seat.shared
            retrieved: Retrieved | None = None
            if shared is not None:
                search = self._searches.get(shared.retrieval_key)
                retrieved = search.retrieve(ask) if search else Failure("other_retrieval_key", "retrieval_key")
            candidates, spent = (retrieved, None) if retrieved is None or isinstance(retrieved, Failure) else retrieved
            recall, failure = seat.ask(graded if seat.info.needs_gold else ask, candidates)
            recall = booked(recall, spent)
            self._on_recall(RecallCall(seat.system, ask, None if isinstance(candidates, Failure) else candidates))
            kept = 0
            expected = rules if seat.fed and recall.status not in ("skipped", "failed") else []
            if expected:
                # The Working Set writes each text on one line, so line breaks are ignored.
                injected = " ".join(recall.context.split())
                kept = sum(rule in injected for rule in expected)
            given = (reachable, nice) if seat.fed else (0, 0)
            reach = given[0] + len(seat.written), given[1]
            yield Answered(point, seat.name, recall, *reach, home, len(expected), kept, failure, seat.fed)

    def close(self) -> None:
        """Close all systems and retrievers, also if one of them raises."""
        with ExitStack() as closing:
            for search in self._searches.values():
                closing.callback(search.close)
            for seat in reversed(self._seats):
                closing.callback(seat.close)


def ask_of(point: RecallPoint, scoping: str, faults: FaultPlan, *, items_only: bool = False) -> Ask:
    """Return the query of a recall point.

    A probe outside the conversation has no recorded scope, so it reaches all scopes; under ``tags``, its text decides.
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
        not point.is_recall_turn,
        how,
        faults.at(point.key) if faults.specs else NO_FAULTS,
        items_only,
    )
