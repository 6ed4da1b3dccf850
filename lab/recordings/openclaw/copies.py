"""Deduplicate sessions: choose the copy of a session to read, and rename sessions whose ids collide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.recordings.model import Recording


class Session(NamedTuple):
    """A session that was read.

    ``ids`` are the marks of its entries, ``passed`` counts the entries that are not turns by reason, and ``entries`` is
    the number of lines or events. ``archive`` is the file name of a session that was reset or deleted, else "".
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
    """Return each session once, in order of conversation id; add skipped copies to ``notes`` and ``passed``.

    Of several copies (left by a migration or a restored backup), the one with the most entry ids is read. If an archive
    shares no entry with the session of the same id, the id was reused and the archive is a separate conversation. If
    several agents use the same id, the agent's name is appended to it.
    """
    groups: dict[tuple[str | None, str], list[Session]] = {}
    for session in sessions:
        groups.setdefault((session.agent, session.recording.conversation), []).append(session)
    chosen = [session for group in groups.values() for session in _readable_copies(group, notes, passed)]
    agents: Counter[str] = Counter()
    for _, name in groups:
        agents[name] += 1
    for name, count in sorted(agents.items()):
        if count > 1:
            notes.append(f"{name}: {count} agents have a session with this id, so the agent's name is appended")
    qualified = [
        _renamed(session, f"{session.recording.conversation}@{session.agent}") if _shared(session, agents) else session
        for session in chosen
    ]
    return sorted(qualified, key=lambda session: session.recording.conversation)


def _shared(session: Session, agents: Counter[str]) -> bool:
    # An archive may already have been renamed to <id>@<archive>.
    name = session.recording.conversation
    return session.agent is not None and any(
        count > 1 and name.split("@")[0] == shared_id for shared_id, count in agents.items()
    )


def _readable_copies(group: list[Session], notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return the copies of one agent's session that are read."""
    chosen: list[Session] = []
    # Active sessions before archives, then by number of entry ids, then databases before files.
    order = sorted(
        group, key=lambda session: (bool(session.archive), -len(session.ids), not session.stored.startswith("SQLite"))
    )
    for session in order:
        same = next(
            (other for other in chosen if session.ids & other.ids or not (session.archive or other.archive)), None
        )
        if same is not None:
            lacking = len(session.ids - same.ids)
            more = f"; entries only in this copy: {lacking}" if lacking else ""
            notes.append(f"{session.recording.conversation}: duplicate in {_where(session)}, skipped{more}")
            passed["copies of sessions"] += 1
        elif chosen:
            name = f"{session.recording.conversation}@{session.archive.partition('.jsonl.')[2] or session.archive}"
            notes.append(f"{name}: shares no entry with the session of the same id, so it is a separate conversation")
            chosen.append(_renamed(session, name))
        else:
            chosen.append(session)
    return chosen


def _where(session: Session) -> str:
    return (
        f"{session.file.name} ({session.archive})"
        if session.archive not in ("", session.file.name)
        else session.file.name
    )


def _renamed(session: Session, name: str) -> Session:
    """Return the session under another name, with its keys and notes renamed to match."""
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
