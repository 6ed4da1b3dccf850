"""Reader of OpenClaw's sessions: JSON Lines transcripts of versions 1 to 4, and the SQLite databases since 2026.9.

A session is a conversation, named by the session's id. Its memories are those that the agent stored with
``memory_store``, created at the time of the confirming result; ``memory_forget`` ends them.

Transcripts may be damaged, because hosts crash while writing them. Unreadable parts are skipped and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import counted
from lab.golden.model import GoldenSet
from lab.recordings.host_prompts import suspects
from lab.recordings.inventory import Gathered, Inventory, passed_over, stocked
from lab.recordings.model import Recording
from lab.recordings.openclaw.database import StoredArchive, read_database
from lab.recordings.openclaw.entries import Entry, Transcript, active_branch
from lab.recordings.openclaw.folders import Archive, Copy, Location, Session, distinct, find, origin_in, stem_of
from lab.recordings.openclaw.transcript import (
    conversation_of,
    load_data,
    load_file,
    read_data,
    read_transcript,
    session_name,
    session_of,
    united,
)
from lab.recordings.origins import GROUP, PERSON, UNKNOWN_ORIGIN

ARCHIVED = "openclaw-archived"
WITHOUT_TURN = "sessions without a turn"


@dataclass(slots=True)
class _Reading:
    """The sessions that were read so far, and what was skipped and why."""

    sessions: list[Session] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    digests: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    unread_archives: list[str] = field(default_factory=list)
    refused: list[UnusableInput] = field(default_factory=list)


def gather(path: Path, *, archived: bool = False) -> Gathered:
    """Read every session at a path; with ``archived``, also sessions that were reset or deleted.

    If ``path`` is a file, it is read whatever its name. In a folder, unreadable transcripts are skipped and noted.
    Raises :class:`UnusableInput` if there is no readable session, and for an unreadable database.
    """
    contents = find(path)
    reading = _Reading(notes=contents.notes, passed=contents.passed)
    for location in contents.locations:
        _read_location(location, reading, archived or path.is_file())
    if reading.unread_archives:
        reading.notes.append(_unread_note(reading.unread_archives))
    sessions = distinct(reading.sessions, united, reading.notes, reading.passed)
    if not sessions:
        raise _nothing_to_read(path, reading)
    recordings = tuple(session.recording for session in sessions)
    for session in sessions:
        reading.passed.update(session.passed)
    inventory = Inventory(
        stocked((session.stored, session.recording) for session in sessions),
        passed_over(reading.passed),
        suspects(
            turn.text
            for recording in recordings
            if recording.origin in (PERSON, GROUP, UNKNOWN_ORIGIN)
            for turn in recording.turns
            if turn.role == "user"
        ),
    )
    used = {file for session in sessions for file in (session.file, *session.also)}
    return Gathered(
        recordings,
        tuple(file for file in reading.files if file in used),
        {file: digest for file, digest in reading.digests.items() if file in used},
        (*reading.notes, *(note for session in recordings for note in session.notes)),
        inventory,
    )


def gather_all(path: Path) -> Gathered:
    """Read every session at a path, including sessions that were reset or deleted; see :func:`gather`."""
    return gather(path, archived=True)


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one file; see :func:`gather`."""
    return [(recording, GoldenSet(notes=recording.notes)) for recording in gather(path).recordings]


class Branch(NamedTuple):
    """The entries of a session's active branch: its conversation, and the version of its format (0: unknown)."""

    conversation: str
    version: int
    entries: list[Entry]


def read_branches(path: Path) -> Iterator[Branch]:
    """Yield the active branch of every session at a path with all its entries, also those that are not turns.

    Copies of a session are yielded each; archives and unreadable files are not.
    """
    for location in find(path).locations:
        for database in location.databases:
            for stored in read_database(database).sessions:
                yield Branch(conversation_of(stored.session), _version(stored.transcript), stored.branch)
        for file in location.transcripts:
            with suppress(UnusableInput):
                transcript = load_file(file).transcript
                header, *entries = transcript.entries or [Entry(0, "", {}, "")]
                name = session_name(file, header.value)
                yield Branch(conversation_of(name), _version(transcript), active_branch(entries)[0])


def _version(transcript: Transcript) -> int:
    versions = (entry.value.get("version") for entry in transcript.entries if entry.value["type"] == "session")
    version = next(versions, 0)
    return version if isinstance(version, int) else 0


def _read_location(location: Location, reading: _Reading, archived: bool) -> None:
    names: set[str] = set()
    for database in location.databases:
        names |= _read_database(database, location, reading, archived)
    for file in location.transcripts:
        _read_file(file, None, location, reading)
    for archive in location.archives:
        if archive.path.name in names:
            reading.passed["archived transcripts that the database contains as well"] += 1
        elif archived:
            _read_file(archive.path, archive, location, reading)
        else:
            _skip_archive(archive.reason, archive.path.name, reading)


def _skip_archive(reason: str, name: str, reading: _Reading) -> None:
    reading.passed[f"sessions that were {reason}; --format {ARCHIVED} reads them"] += 1
    reading.unread_archives.append(f"{name} ({reason})")


def _unread_note(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"skipped {len(names)} sessions that were reset or deleted ({shown}); --format {ARCHIVED} reads them"


def _read_file(file: Path, archive: Archive | None, location: Location, reading: _Reading) -> None:
    reading.files.append(file)
    try:
        session = read_transcript(file, lambda name: origin_in(location, name, stem_of(file.name)))
    except UnusableInput as error:
        _refuse(error, reading)
        return
    stored = f"{archive.reason}, {session.stored}" if archive else session.stored
    archived = archive.path.name if archive else ""
    reading.sessions.append(session._replace(agent=location.agent, stored=stored, archive=archived))


def _read_database(file: Path, location: Location, reading: _Reading, archived: bool) -> set[str]:
    """Read the sessions of a database; return the names of the archives that it contains."""
    database = read_database(file, archives=archived)
    reading.files.append(file)
    reading.digests[file] = database.digest
    reading.notes += [f"{file}: {note}" for note in database.notes]
    stored = f"SQLite {database.version}" + (f" ({database.host})" if database.host else "")
    for stored_session in database.sessions:
        session = session_of(
            stored_session.session,
            stored_session.transcript,
            (stored_session.branch, stored_session.lost),
            stored_session.notes,
            is_file=False,
            origin=stored_session.origin,
        )
        if not session.recording.turns:
            reading.passed[WITHOUT_TURN] += 1
            reading.passed.update(session.passed)
            reading.notes.append(f"{file}: session {stored_session.session}: has no turn, skipped")
            continue
        load = partial(_load_stored, file, stored_session.session)
        reading.sessions.append(session._replace(file=file, agent=location.agent, stored=stored, load=load))
    for stored_archive in database.archives:
        if stored_archive.data is None and stored_archive.problem is None:
            _skip_archive(stored_archive.reason, stored_archive.name, reading)
            continue
        at = Path(f"{file}:{stored_archive.name}")
        try:
            session = _archived(stored_archive, at)
        except UnusableInput as error:
            _refuse(error, reading)
            continue
        named = f"{stored_archive.reason}, {session.stored} in {stored}"
        reading.sessions.append(
            session._replace(
                file=file,
                agent=location.agent,
                stored=named,
                archive=stored_archive.name,
                load=partial(_load_archived, file, stored_archive.name),
            )
        )
    return {stored_archive.name for stored_archive in database.archives}


def _load_stored(file: Path, session: str) -> Copy:
    """Read a session of a database again, as one of several copies."""
    stored = next(
        (stored for stored in read_database(file, archives=False).sessions if stored.session == session), None
    )
    if stored is None or not stored.branch:
        raise CannotMeasure(f"{file}: session {session} changed while it was read; run the command again")
    end = stored.branch[-1]
    notes = (*stored.notes, *stored.transcript.spoilt_notes(is_file=False))
    return Copy(stored.transcript, str(end.value.get("id", end.id)), notes)


def _load_archived(file: Path, name: str) -> Copy:
    """Read an archived session of a database again, as one of several copies."""
    archives = read_database(file, archives=True).archives
    data = next((archive.data for archive in archives if archive.name == name), None)
    if data is None:
        raise CannotMeasure(f"{file}: {name} changed while it was read; run the command again")
    return load_data(data)


def _archived(stored_archive: StoredArchive, at: Path) -> Session:
    if stored_archive.data is None:
        raise UnusableInput(f"{at}: {stored_archive.problem}")
    return read_data(stored_archive.data, at, lambda _: stored_archive.origin)


def _refuse(error: UnusableInput, reading: _Reading) -> None:
    reading.refused.append(error)
    reading.passed["transcripts that are unreadable or have no turn"] += 1
    reading.notes.append(f"skipped: {error}")


def _nothing_to_read(path: Path, reading: _Reading) -> UnusableInput:
    """Return the error that says why there is no readable session at a path."""
    if path.is_file() and reading.refused:
        return reading.refused[0]
    if reading.unread_archives:
        return UnusableInput(
            f"{path}: has only sessions that were reset or deleted ({len(reading.unread_archives)}); "
            f"--format {ARCHIVED} reads them"
        )
    if reading.files:
        more = f"; the first: {reading.refused[0]}" if reading.refused else ""
        return UnusableInput(f"{path}: has {counted(len(reading.files), 'session file')}, but no readable turn{more}")
    accepted = "a host's home (~/.openclaw), an agent's folder, a sessions folder, or a .sqlite or .jsonl file"
    return UnusableInput(
        f"{path}: has no *.jsonl or openclaw-agent.sqlite file, which format 'openclaw' reads; give {accepted}"
    )
