"""The timeline of a conversation: its turns in order, with the memories created and forgotten and the recall points.

The turn loop goes through it, and so does a rehearsal (:mod:`lab.replay.rehearsal`), so that both see the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from lab.recordings.model import Memory, Recording, Turn
from lab.replay.recall_points import RecallPoint


class TimelineEntry(NamedTuple):
    """A turn, or one of the recall points after the last turn (``turn`` is None).

    The memories ``born`` and ``gone`` are passed on first, then the ``points`` are answered, then the turn is observed.
    What a system sees of an entry is a :class:`lab.systems.protocols.Step`.
    """

    turn: Turn | None
    now_ms: int
    points: Sequence[RecallPoint]
    born: Sequence[Memory] = ()
    gone: Sequence[Memory] = ()


def timeline(
    recording: Recording, memories: Sequence[Memory], points: Sequence[RecallPoint], *, every_turn: bool
) -> Iterator[TimelineEntry]:
    """Yield every turn, and the recall points after the last one.

    ``memories`` are ordered by creation. They are passed on at turns with a recall point only, unless ``every_turn``.
    """
    until = births(memories)
    by_turn: dict[int, list[RecallPoint]] = {}
    for point in points:
        by_turn.setdefault(point.seq, []).append(point)
    for turn in recording.turns:
        here = by_turn.get(turn.seq, ())
        born, gone = until(turn.seq) if here or every_turn else ([], [])
        yield TimelineEntry(turn, turn.time_ms, here, born, gone)
    for point in by_turn.get(len(recording.turns), ()):
        yield TimelineEntry(None, point.now_ms, (point,), *until(point.seq))


def births(memories: Sequence[Memory]) -> Callable[[int], tuple[list[Memory], list[Memory]]]:
    """Return a function that returns the memories created and the memories forgotten since its last call.

    Its argument ``seq`` is a turn number and must not decrease from call to call. A memory is visible if
    ``visible_from <= seq < visible_until``. A memory created and forgotten within one turn is in both lists.
    """
    coming = deque(memories)
    ends = deque(
        sorted(
            (max(memory.visible_from, memory.visible_until), index)
            for index, memory in enumerate(memories)
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
