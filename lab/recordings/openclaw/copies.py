"""Deduplicate sessions: choose the copy of a session to read, and rename sessions whose ids collide."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lab.recordings.model import Recording
from lab.recordings.openclaw.entries import Transcript
from lab.recordings.openclaw.origins import strongest


class Copy(NamedTuple):
    """One copy of a session: its entries, the end of its active branch (None: the last entry), and notes."""

    transcript: Transcript
    leaf: str | None
    notes: tuple[str, ...]


def _no_copy() -> Copy:
    raise LookupError("the session has no file")


class Session(NamedTuple):
    """A session that was read.

    ``ids`` are the marks of its entries, ``passed`` counts the entries that are not turns by reason, and ``entries`` is
    the number of lines or events. ``archive`` is the file name of a session that was reset or deleted, else "".

    By ``said`` (the digests of what users said) and ``above`` (the parents of its entries that it lacks), copies are
    known. ``span`` has its first and last time. ``load`` reads it again, and ``also`` are the files of its copies.
    """

    recording: Recording
    ids: frozenset[str]
    passed: Counter[str]
    messages: int
    entries: int
    file: Path = Path()
    stored: str = ""
    agent: str | None = None
    archive: str = ""
    said: frozenset[str] = frozenset()
    above: frozenset[str] = frozenset()
    span: tuple[int, int] = (0, 0)
    load: Callable[[], Copy] = _no_copy
    also: tuple[Path, ...] = ()


# Return several copies of a session as one, or None if the last has the entries of all.
Unite = Callable[[Sequence[Session]], Session | None]


def distinct(sessions: Iterable[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return each session once, in order of conversation id; add skipped copies to ``notes`` and ``passed`` (TE-4).

    Copies (left by a migration or a restored backup) are sessions of one id that share what users said, or of which one
    continues the other. Of several, the one with the most entries is read; if others have entries that it lacks, their
    union is. Sessions of one id that are no copies are separate conversations: the first in time keeps the id. If
    several agents use the same id, the agent's name is appended to it.
    """
    groups: dict[tuple[str | None, str], list[Session]] = {}
    for session in sessions:
        groups.setdefault((session.agent, session.recording.conversation), []).append(session)
    chosen = [session for group in groups.values() for session in _conversations(group, unite, notes, passed)]
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


def _conversations(group: list[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> list[Session]:
    """Return the conversations of one agent that have one id."""
    if len(group) == 1:
        return group
    parts = [_of_copies(part, unite, notes, passed) for part in _parts(group)]
    # By what does not change while a conversation grows, so that names are stable.
    parts.sort(key=lambda session: (bool(session.archive), session.span[0], where(session)))
    taken = {parts[0].recording.conversation}
    chosen = [parts[0]]
    for session in parts[1:]:
        name = stem = f"{session.recording.conversation}@{_suffix(session)}"
        number = 1
        while name in taken:
            number += 1
            name = f"{stem}.{number}"
        taken.add(name)
        notes.append(f"{name}: shares no entry with the session of the same id, so it is a separate conversation")
        chosen.append(_renamed(session, name))
    return chosen


def _parts(group: list[Session]) -> list[list[Session]]:
    """Return the sessions of a group, sorted into copies of each other."""
    parts: list[list[Session]] = []
    for session in group:
        same = [part for part in parts if any(_are_copies(session, other) for other in part)]
        parts = [part for part in parts if part not in same]
        parts.append([*(other for part in same for other in part), session])
    return parts


def _are_copies(one: Session, other: Session) -> bool:
    # Ids of entries repeat where a program numbers them, so what people said decides, if they said anything.
    shared = one.said & other.said if one.said and other.said else one.ids & other.ids
    return bool(shared or one.above & other.ids or other.above & one.ids)


def _of_copies(part: list[Session], unite: Unite, notes: list[str], passed: Counter[str]) -> Session:
    """Return the session that copies have in common: the copy that lacks no entry of another, else their union."""
    # Active sessions before archives, then by number of entry ids, then databases before files.
    order = sorted(
        part, key=lambda session: (bool(session.archive), -len(session.ids), not session.stored.startswith("SQLite"))
    )
    best, *others = order
    whole = None
    lacking = [other for other in others if other.ids - best.ids]
    if lacking:
        # The newest last; of equal ones, the one that would be read alone.
        in_time = sorted([*reversed(lacking), best], key=lambda session: session.span[1])
        whole = unite(in_time)
        best = in_time[-1]
    for other in order:
        if other is best:
            continue
        if whole is None or all(other is not copy for copy in lacking):
            notes.append(f"{other.recording.conversation}: duplicate in {where(other)}, skipped")
        passed["copies of sessions"] += 1
    chosen = whole or best
    # Only one of them may be in an index.
    origin = strongest(copy.recording.origin for copy in part)
    return chosen._replace(recording=replace(chosen.recording, origin=origin))


def _suffix(session: Session) -> str:
    """Return what tells a conversation from another of the same id."""
    if session.archive:
        return session.archive.partition(".jsonl.")[2] or session.archive
    if session.stored.startswith("SQLite"):
        return "sqlite"
    stem = session.file.name.partition(".jsonl")[0]
    # Slashes and marks would separate the parts of a key.
    return re.sub(r"[/#]", "_", stem) if stem != session.recording.conversation else "jsonl"


def where(session: Session) -> str:
    """Return the name of the file, or of the archive, that has a session."""
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
        recording=replace(
            recording,
            conversation=name,
            turns=tuple(replace(turn, key=name + turn.key[old:]) for turn in recording.turns),
            memories=tuple(replace(memory, key=name + memory.key[old:]) for memory in recording.memories),
            notes=tuple(name + note[old:] for note in recording.notes),
        )
    )
