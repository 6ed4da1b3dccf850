"""The recalls that transcripts record, on one clock: results of ``memory_recall``, and injected blocks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from lab.recordings.events import InjectedBlock, RecordedMemory, ToolEvent
from lab.recordings.model import GLOBAL, UNKNOWN, Memory, Recording, Turn
from lab.recordings.openclaw.tools import FORGET, RECALL, STORE

Kind = Literal["tool", "injected"]


class Recorded(NamedTuple):
    """One recall of the live engine: at the user's turn ``turn`` of a conversation, at epoch ms ``time_ms``."""

    conversation: str
    turn: str
    seq: int
    time_ms: int
    event: ToolEvent | InjectedBlock

    @property
    def kind(self) -> Kind:
        """Whether the agent searched or the engine injected."""
        return "tool" if isinstance(self.event, ToolEvent) else "injected"


@dataclass(frozen=True, slots=True)
class History:
    """What the transcripts record: recalls in order of time, and how often the agent searched.

    ``failed`` counts calls of ``memory_recall`` without a usable result, ``by_host`` those that answered a message of
    the host. ``searching`` are the keys of the user's turns at which the agent searched.
    """

    recalls: tuple[Recorded, ...]
    failed: int
    by_host: int
    user_turns: int
    searching: frozenset[str]


def history(recordings: Sequence[Recording]) -> History:
    """Collect the recorded recalls of conversations."""
    recalls, failed, by_host, searching = [], 0, 0, set()
    for recording, turn, event in _events(recordings):
        if isinstance(event, ToolEvent):
            if event.tool != RECALL:
                continue
            failed += event.failed
            by_host += event.for_host
            if turn.role == "user" and not event.for_host:
                searching.add(turn.key)
            if event.failed:
                continue
        time_ms = event.time_ms if isinstance(event, ToolEvent) else turn.time_ms
        recalls.append(Recorded(recording.conversation, turn.key, turn.seq, time_ms, event))
    recalls.sort(key=lambda recorded: (recorded.time_ms, recorded.conversation, recorded.seq))
    users = sum(turn.role == "user" for recording in recordings for turn in recording.turns)
    return History(tuple(recalls), failed, by_host, users, frozenset(searching))


@dataclass(frozen=True, slots=True)
class Deletions:
    """The memories that the agent deleted: the time of the deletion, epoch ms, by id and by text."""

    ids: Mapping[str, int]
    texts: Mapping[str, int]

    def of(self, memory: RecordedMemory) -> int | None:
        """Return when a memory was deleted; None if no transcript shows it."""
        return self.ids.get(memory.id) if memory.id else self.texts.get(memory.text)


def deletions(recordings: Sequence[Recording]) -> Deletions:
    """Collect what ``memory_forget`` deleted in any conversation, because they share one store."""
    ids: dict[str, int] = {}
    texts: dict[str, int] = {}
    for _, _, event in _events(recordings):
        if isinstance(event, ToolEvent) and event.tool == FORGET:
            for memory in event.memories:
                ids[memory.id] = event.time_ms
                if memory.text:
                    texts[memory.text] = event.time_ms
    return Deletions(ids, texts)


def stored_by_tools(recordings: Sequence[Recording], *, seen: bool = False) -> tuple[Memory, ...]:
    """Return what ``memory_store`` stored in any conversation, in order of time, under the ids of the live engine.

    With ``seen``, also the memories that searches returned, from the time of creation that their results name: the
    engine's own captures, for example.
    """
    stored: list[tuple[int, RecordedMemory]] = []
    for _, _, event in _events(recordings):
        if isinstance(event, ToolEvent) and event.tool == STORE:
            stored += [(event.time_ms, memory) for memory in event.memories]
    known = {memory.id for _, memory in stored}
    for _, _, event in _events(recordings) if seen else ():
        if isinstance(event, ToolEvent) and event.tool == RECALL:
            for shown in event.memories:
                if shown.created_at is not None and shown.id and shown.text.strip() and shown.id not in known:
                    known.add(shown.id)
                    stored.append((shown.created_at, shown))
    stored.sort(key=lambda pair: pair[0])
    by_id: dict[str, Memory] = {}
    for place, (time_ms, shown) in enumerate(stored):
        memory = Memory(
            shown.id,
            shown.text,
            shown.text,
            visible_from=0,
            created_at=time_ms,
            category=shown.category or "other",
            scope=shown.scope or GLOBAL,
            label=shown.label or UNKNOWN,
            trust=shown.trust or "user",
            place=place,
        )
        by_id.setdefault(shown.id, memory)
    return tuple(by_id.values())


def over_time(recording: Recording, memories: Iterable[Memory], gone: Mapping[str, int]) -> Recording:
    """Return a conversation with the memories of a store; ``gone`` has the times at which some were deleted, by key."""
    times = [turn.time_ms for turn in recording.turns]
    placed = [
        replace(
            memory,
            visible_from=bisect_left(times, memory.created_at),
            visible_until=bisect_left(times, gone[memory.key]) if memory.key in gone else None,
        )
        for memory in memories
    ]
    return replace(recording, memories=tuple(placed))


def _events(recordings: Sequence[Recording]) -> Iterator[tuple[Recording, Turn, ToolEvent | InjectedBlock]]:
    for recording in recordings:
        for turn in recording.turns:
            for event in turn.events:
                yield recording, turn, event
