"""Convert a transcript, from a file or from a database, to a recording."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.recordings.model import UNKNOWN_ORIGIN, Recording, in_birth_order
from lab.recordings.openclaw.branch import Branch
from lab.recordings.openclaw.copies import Copy, Session, where
from lab.recordings.openclaw.entries import (
    Entry,
    Transcript,
    active_branch,
    merged,
    parents_of,
    parse_file,
    said_in,
    time_of,
)
from lab.recordings.openclaw.origins import decided
from lab.recordings.openclaw.unpack import TRANSCRIPT_LIMIT, CannotUnpack, unpack

VERSIONS = (1, 2, 3, 4)
ZSTD = b"\x28\xb5\x2f\xfd"


# Return what an index says of the session with this name.
Named = Callable[[str], str]


def read_transcript(path: Path, indexed: Named = lambda _: UNKNOWN_ORIGIN) -> Session:
    """Read one file; ``indexed`` returns what an index says of the origin of a session.

    Raises :class:`UnusableInput` if it has no header, or no message on its active branch.
    """
    return read_data(_data_of(path), path, indexed)._replace(load=partial(load_file, path))


def load_file(path: Path) -> Copy:
    """Read one file again, as a copy of its session."""
    return load_data(_data_of(path))


def load_data(data: bytes) -> Copy:
    """Return the content of a file as a copy of its session."""
    transcript = parse_file(data)
    return Copy(transcript, None, tuple(transcript.spoilt_notes(is_file=True)))


def _data_of(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
    if data.startswith(ZSTD) or path.suffix == ".zst":
        try:
            data = unpack(data, TRANSCRIPT_LIMIT)
        except CannotUnpack as error:
            raise UnusableInput(f"{path}: {error}") from None
    return data


def read_data(data: bytes, path: Path, indexed: Named = lambda _: UNKNOWN_ORIGIN) -> Session:
    """Read the content of a file; ``path`` is for messages. Raises like :func:`read_transcript`."""
    transcript = parse_file(data)
    if not transcript.entries or transcript.entries[0].value.get("type") != "session":
        raise UnusableInput(
            f'{path}:1: is not a session header; the first line of a transcript is {{"type": "session", "id": …}}'
        )
    header, *entries = transcript.entries
    version = header.value.get("version", 1)
    if version not in VERSIONS or isinstance(version, bool):
        raise UnusableInput(f"{path}:{header.line}: version {version!r} is none of {', '.join(map(str, VERSIONS))}")
    name = _conversation(path, header.value)
    session = session_of(name, transcript, active_branch(entries), (), is_file=True, origin=indexed(name))
    if not session.messages:
        raise UnusableInput(
            f"{path}: has no message of a user or an assistant on its active branch; move it out of the folder"
        )
    if not session.recording.turns:
        raise UnusableInput(f"{path}: conversation {name!r} has no turns, so it cannot be replayed")
    return session._replace(file=path, stored=f"JSON Lines {version}")


def session_of(
    name: str,
    transcript: Transcript,
    active: tuple[list[Entry], int],
    extra_notes: Sequence[str],
    *,
    is_file: bool | None,
    origin: str = UNKNOWN_ORIGIN,
) -> Session:
    """Return a transcript as a session: the recording of its active branch and the counts of skipped entries.

    ``active`` is the result of :func:`active_branch`, and ``origin`` what an index says of the session. ``is_file`` is
    false for the events of a database, and None if ``extra_notes`` has the notes on spoilt lines.
    """
    branch, lost = active
    conversation = re.sub(r"[/#]", "_", name.strip()) or "session"
    walker = Branch(conversation)
    on_branch = {entry.line for entry in branch}
    entries = [entry for entry in transcript.entries if entry.value["type"] != "session"]
    walker.walk(entries, parents_of(entries)[0], on_branch)
    headers = [entry for entry in transcript.entries if entry.value["type"] == "session"]
    away = [entry for entry in entries if entry.line not in on_branch]
    left_messages = sum(entry.value["type"] == "message" for entry in away)
    notes = [
        *extra_notes,
        *(transcript.spoilt_notes(is_file=is_file) if is_file is not None else ()),
        *([f"entries whose parent is missing, attached to the previous entry: {lost}"] if lost else []),
        *([f"messages on abandoned branches, not replayed: {left_messages}"] if left_messages else []),
        *walker.notes(),
    ]
    passed = Counter(walker.passed)
    passed["session headers"] = len(headers)
    passed["entries on abandoned branches"] = len(away)
    passed["lines or events that are not entries"] = len(transcript.spoilt)
    recording = Recording(
        conversation,
        tuple(walker.turns),
        in_birth_order(walker.tools.memories),
        notes=tuple(f"{conversation}: {note}" for note in notes),
        origin=decided(origin, branch),
    )
    lines = len(transcript.entries) + len(transcript.spoilt)
    ids = frozenset(entry.mark for entry in entries)
    parents = {parent for entry in entries if isinstance(parent := entry.value.get("parentId"), str)}
    times = [time_ms for entry in entries if (time_ms := time_of(entry)) is not None]
    return Session(
        recording,
        ids,
        +passed,
        walker.messages,
        lines,
        said=said_in(entries),
        above=frozenset(parents - ids),
        span=(min(times), max(times)) if times else (0, 0),
    )


def united(sessions: Sequence[Session]) -> Session | None:
    """Return copies of a session, the newest last, as one session with the entries of all; None if the last has all."""
    copies = [session.load() for session in sessions]
    newest, last = sessions[-1], copies[-1]
    whole = copies[0].transcript
    for copy in copies[1:]:
        whole = merged(whole, copy.transcript)
    added = len(whole.entries) - len(last.transcript.entries)
    if not added:
        return None
    entries = [entry for entry in whole.entries if entry.value["type"] != "session"]
    others = ", ".join(where(session) for session in sessions[:-1])
    notes = [
        f"read from {where(newest)} and {others}, which are copies; entries that only the latter have: {added}",
        *(f"{where(session)}: {note}" for session, copy in zip(sessions, copies, strict=True) for note in copy.notes),
    ]
    branch = active_branch(entries, last.leaf)
    name, origin = newest.recording.conversation, newest.recording.origin
    session = session_of(name, whole, branch, notes, is_file=None, origin=origin)
    return session._replace(
        file=newest.file,
        also=tuple(copy.file for copy in sessions[:-1]),
        stored=", ".join(dict.fromkeys(copy.stored for copy in reversed(sessions))),
        agent=newest.agent,
        archive=newest.archive,
    )


def _conversation(path: Path, header: dict[str, Any]) -> str:
    """Return the session's id, or the file's stem if the file holds a single topic or the id is not a valid name."""
    identity = header.get("id")
    stem = path.name.partition(".jsonl")[0]
    if not isinstance(identity, str) or not identity.strip() or "/" in identity or not identity.isprintable():
        return stem
    return stem if stem.startswith(f"{identity}-topic-") else identity
