"""Write recordings in the ``lab`` format, so that :mod:`lab.recordings.native` reads back an equal recording.

Fields whose value the reader would derive anyway are left out.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import dump_json
from lab.recordings.model import GLOBAL, PERSON, PROVENANCE, Memory, Recording, Turn
from lab.recordings.native import SCHEMA


def recording_lines(recording: Recording) -> bytes:
    """Return one conversation as JSON Lines.

    Raises :class:`UnusableInput` if the format cannot represent it: a session that resumes after another one, memories
    that are not in the order in which they become visible, or a memory that is forgotten before it becomes visible.
    """
    name = recording.conversation
    header = {"kind": "recording", "schema": SCHEMA, "conversation": name, "language": recording.language}
    header |= {"origin": recording.origin} if recording.origin != PERSON else {}
    lines: list[dict[str, Any]] = [header | ({"notes": list(recording.notes)} if recording.notes else {})]
    for before, after in pairwise(recording.memories):
        if after.visible_from < before.visible_from:
            raise UnusableInput(f"{name}: memory {after.key} can be recalled before {before.key}, which is older")
    for memory in recording.memories:
        until = memory.visible_until
        if until is not None and not max(1, memory.visible_from) <= until <= len(recording.turns):
            raise UnusableInput(f"{name}: memory {memory.key} is forgotten before it can be recalled, or after the end")
    writer = _Memories(recording.memories, recording.turns)
    lines += writer.up_to(0, None)
    session, begun = None, set[str]()
    for index, turn in enumerate(recording.turns):
        if turn.session != session:
            session = turn.session
            if session in begun:
                raise UnusableInput(f"{name}: session {session!r} resumes after another session began")
            begun.add(session)
            lines.append({"kind": "session", "session": session, "time": _iso(turn.time_ms), "scope": turn.scope})
            scope, earliest = turn.scope, turn.time_ms
        lines.append(_turn(recording, turn, scope, earliest))
        earliest = turn.time_ms + 1
        lines += writer.up_to(index + 1, turn)
    return b"".join(dump_json(line, indent=None) for line in lines)


def _turn(recording: Recording, turn: Turn, scope: str, earliest: int) -> dict[str, Any]:
    prefix = f"{recording.conversation}/{turn.session}/"
    if not turn.key.startswith(prefix):
        raise UnusableInput(f"{recording.conversation}: the key of turn {turn.key} does not begin with {prefix}")
    line = {"kind": "turn", "turn": turn.key.removeprefix(prefix), "role": turn.role, "text": turn.text}
    line |= {"time": _iso(turn.time_ms)} if turn.time_ms != earliest else {}
    line |= {"speaker": turn.speaker} if turn.speaker != turn.role else {}
    line |= {name: text for name, text in (("said", turn.said), ("index_text", turn.index_text)) if text}
    return line | ({"scope": turn.scope} if turn.scope != scope else {})


class _Memories:
    """Writer of the memory lines, in order; tracks the key and time that a reader would derive."""

    def __init__(self, memories: tuple[Memory, ...], turns: tuple[Turn, ...]) -> None:
        self.memories, self.turns = memories, turns
        self.done = 0
        self.born = -1

    def up_to(self, visible_from: int, turn: Turn | None) -> list[dict[str, Any]]:
        """Return the lines of the memories that become visible at ``visible_from``; ``turn`` is the line above them."""
        lines = []
        ordinal = 0
        while self.done < len(self.memories) and self.memories[self.done].visible_from == visible_from:
            memory = self.memories[self.done]
            self.done += 1
            line: dict[str, Any] = {"kind": "memory"}
            if turn is not None and memory.key == f"{turn.key}#{ordinal}":
                ordinal += 1
            else:
                line |= {"key": memory.key}
            born = max(self.born + 1, turn.time_ms if turn else 0)
            line |= {"time": _iso(memory.created_at)} if memory.created_at != born else {}
            self.born = memory.created_at
            line |= {"text": memory.text}
            line |= {"index_text": memory.index_text} if memory.index_text != memory.text else {}
            line |= {"category": memory.category} if memory.category != "fact" else {}
            line |= {"importance_label": memory.label} if memory.label is not None else {}
            line |= {"scope": memory.scope} if memory.scope != (turn.scope if turn else GLOBAL) else {}
            line |= {"supersedes": list(memory.supersedes)} if memory.supersedes else {}
            line |= {"trust": memory.trust} if memory.trust != "user" else {}
            line |= {"hard_rule": True} if memory.hard_rule else {}
            line |= {name: value for name in PROVENANCE if (value := getattr(memory, name))}
            line |= {} if memory.due_at is None else {"due_at": _iso(memory.due_at)}
            line |= {"media_refs": list(memory.media_refs)} if memory.media_refs else {}
            line |= {"media_kind": memory.media_kind} if memory.media_kind else {}
            until = memory.visible_until
            lines.append(line | ({"forgotten_after": self.turns[until - 1].key} if until else {}))
        return lines


def _iso(time_ms: int) -> str:
    """Return epoch milliseconds as ISO 8601, UTC."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds")
