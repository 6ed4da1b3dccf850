"""The recall points of a conversation: its recall turns and its probes, on one clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.base.errors import UnusableInput
from lab.golden.model import Probe
from lab.recordings.model import Recording

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
        raise UnusableInput(f"unknown recall turns {recall_turns!r}; known: {', '.join(RECALL_TURNS)}")
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
