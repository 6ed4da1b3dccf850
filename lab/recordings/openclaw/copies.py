"""Sessions that were found more than once: which copy is read, and what the others are called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.recordings.model import Recording


class Session(NamedTuple):
    """A session that was read.

    ``ids`` are the marks of its entries, ``passed`` its entries that are no turn, ``entries`` how many lines or events
    it has. ``archive`` is the name of what a reset or a deletion left; "" for a session that is in use.
    """

    recording: Recording
    ids: frozenset[str]
    passed: Counter[str]
    messages: int
    entries: int
    file: Path = Path()
    stored: str = ""
    origin: str = ""
    agent: str | None = None
    archive: str = ""


def distinct(sessions: Iterable[Session], notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return each session once, by conversation; what was passed over is noted and counted.

    Of copies (a file that a migration left, a backup that was restored), the one with the most entry ids is read. An
    archive that shares no entry with the session of its id is a conversation of its own: the id was used again. Agents
    that hold one id have it qualified by their names.
    """
    groups: dict[tuple[str | None, str], list[Session]] = {}
    for one in sessions:
        groups.setdefault((one.agent, one.recording.conversation), []).append(one)
    chosen = [one for group in groups.values() for one in _once(group, notes, passed)]
    agents: Counter[str] = Counter()
    for _, name in groups:
        agents[name] += 1
    for name, count in sorted(agents.items()):
        if count > 1:
            notes.append(f"{name}: {count} agents hold a session of this id; each is called by its agent, too")
    qualified = [
        _called(one, f"{one.recording.conversation}@{one.agent}") if _shared(one, agents) else one for one in chosen
    ]
    return sorted(qualified, key=lambda one: one.recording.conversation)


def _shared(session: Session, agents: Counter[str]) -> bool:
    # An archive may have been called otherwise already: its name begins with the id.
    name = session.recording.conversation
    return session.agent is not None and any(count > 1 and name.split("@")[0] == one for one, count in agents.items())


def _once(group: list[Session], notes: list[str], passed: Counter[str]) -> list[Session]:
    """The copies of one session of one agent that are read."""
    chosen: list[Session] = []
    # Sessions in use first, then the most entry ids, then databases before files.
    order = sorted(group, key=lambda one: (bool(one.archive), -len(one.ids), not one.stored.startswith("SQLite")))
    for one in order:
        same = next((other for other in chosen if one.ids & other.ids or not (one.archive or other.archive)), None)
        if same is not None:
            lacking = len(one.ids - same.ids)
            more = f"; entries that only this copy holds: {lacking}" if lacking else ""
            notes.append(f"{one.recording.conversation}: found again in {_where(one)}, which is passed over{more}")
            passed["copies of sessions"] += 1
        elif chosen:
            name = f"{one.recording.conversation}@{one.archive.partition('.jsonl.')[2] or one.archive}"
            notes.append(f"{name}: shares no entry with the session of its id, so it is a conversation of its own")
            chosen.append(_called(one, name))
        else:
            chosen.append(one)
    return chosen


def _where(session: Session) -> str:
    return (
        f"{session.file.name} ({session.archive})"
        if session.archive not in ("", session.file.name)
        else session.file.name
    )


def _called(session: Session, name: str) -> Session:
    """The same session under another name; its keys begin with it."""
    recording = session.recording
    old = len(recording.conversation)
    return session._replace(
        recording=Recording(
            name,
            tuple(replace(turn, key=name + turn.key[old:]) for turn in recording.turns),
            tuple(replace(memory, key=name + memory.key[old:]) for memory in recording.memories),
            recording.language,
            tuple(name + note[old:] for note in recording.notes),
        )
    )
