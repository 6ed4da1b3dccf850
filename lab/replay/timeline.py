"""The timeline of a conversation: its recall points, and its turns in order with the memories that come and go.

Recall points are the recall turns and the probes, on one clock. The turn loop goes through the timeline, and so does a
rehearsal (:mod:`lab.replay.sources`), so that both see the same.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.golden.model import Probe
from lab.recordings.model import Memory, Recording, Turn

RECALL_TURNS = ("user", "all", "none")


@dataclass(frozen=True, slots=True)
class RecallPoint:
    """A point of a conversation at which memories are recalled.

    A recall turn (``is_recall_turn``) is part of the conversation; a point with a ``probe`` is judged. ``scope`` and
    ``session`` are None for a probe from outside, which reaches every scope and belongs to no session.
    """

    key: str
    seq: int
    text: str
    scope: str | None
    now_ms: int
    is_recall_turn: bool
    probe: Probe | None
    session: str | None = None


def recall_points(recording: Recording, probes: Sequence[Probe], recall_turns: str) -> Iterator[RecallPoint]:
    """Yield the recall points of a conversation in order: recall turns and probes on turns, then probes from outside.

    A probe from outside reads the state after the last turn and changes nothing, so it is not a recall turn. Raises
    :class:`UnusableInput` for an unknown value of ``recall_turns``.
    """
    if recall_turns not in RECALL_TURNS:
        raise UnusableInput(f"unknown recall turns {recall_turns!r}; {choices(recall_turns, RECALL_TURNS)}")
    inline = {probe.turn: probe for probe in probes if probe.turn is not None}
    for turn in recording.turns:
        recalls = recall_turns == "all" or (recall_turns == "user" and turn.role == "user")
        probe = inline.get(turn.key)
        if recalls or probe:
            yield RecallPoint(turn.key, turn.seq, turn.text, turn.scope, turn.time_ms, recalls, probe, turn.session)
    end = len(recording.turns)
    after = recording.turns[-1].time_ms + 1
    for probe in probes:
        if probe.turn is None:
            yield RecallPoint(probe.id, end, probe.query or "", None, after, False, probe)


class TimelineEntry(NamedTuple):
    """A turn, or one of the recall points after the last turn (``turn`` is None).

    The memories ``born`` and ``gone`` are passed on first, then the ``points`` are answered, then the turn is observed.
    What a system sees of an entry is a :class:`lab.systems.contract.Step`.
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
