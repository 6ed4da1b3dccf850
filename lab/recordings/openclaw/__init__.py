"""OpenClaw's sessions: transcripts of versions 1 to 4 as JSON Lines, and the SQLite databases of 2026.9 and later.

One session is one conversation, named by its id. Its memories are those that the agent stored with ``memory_store``
and that a result confirmed, born at that moment; ``memory_forget`` ends them.

A transcript is a log that was written while things went wrong: what cannot be read of it is skipped and counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import UnusableInput
from lab.formatting import counted
from lab.golden.model import GoldenSet
from lab.recordings.inventory import Inventory, passed_over, stocked
from lab.recordings.model import Recording
from lab.recordings.openclaw.copies import Session, distinct
from lab.recordings.openclaw.database import StoredArchive, read_database
from lab.recordings.openclaw.folders import Archive, Place, find
from lab.recordings.openclaw.transcript import read_data, read_transcript, session_of

ARCHIVED = "openclaw-archived"
WITHOUT_TURN = "sessions in which nobody says anything"


@dataclass(frozen=True, slots=True)
class Gathered:
    """Recordings by conversation, the files they came from, digests of those that are no plain files, and notes."""

    recordings: tuple[Recording, ...]
    files: tuple[Path, ...]
    digests: dict[Path, str]
    notes: tuple[str, ...]
    inventory: Inventory


@dataclass(slots=True)
class _Reading:
    """What was read so far, and the reasons why things were not."""

    sessions: list[Session] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    digests: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    passed: Counter[str] = field(default_factory=Counter)
    left: list[str] = field(default_factory=list)
    refused: list[UnusableInput] = field(default_factory=list)


def gather(path: Path, *, archived: bool = False) -> Gathered:
    """Read every session at a path; with ``archived`` those that were reset or deleted, too.

    A file that is named itself is read whatever it is. In a folder, what cannot be read is passed over and noted.
    Raises :class:`UnusableInput` where nothing is left, and for a database that cannot be read.
    """
    found = find(path)
    reading = _Reading(notes=found.notes, passed=found.passed)
    for place in found.places:
        _read_place(place, reading, archived or path.is_file())
    if reading.left:
        reading.notes.append(_left(reading.left))
    sessions = distinct(reading.sessions, reading.notes, reading.passed)
    if not sessions:
        raise _nothing(path, reading)
    recordings = tuple(one.recording for one in sessions)
    for one in sessions:
        reading.passed.update(one.passed)
    inventory = Inventory(
        stocked((one.stored, one.origin, one.recording) for one in sessions), passed_over(reading.passed)
    )
    used = {one.file for one in sessions}
    return Gathered(
        recordings,
        tuple(file for file in reading.files if file in used),
        {file: digest for file, digest in reading.digests.items() if file in used},
        (*reading.notes, *(note for one in recordings for note in one.notes)),
        inventory,
    )


def gather_all(path: Path) -> Gathered:
    """Read every session at a path, those that were reset or deleted, too; see :func:`gather`."""
    return gather(path, archived=True)


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one file; see :func:`gather`."""
    return [(one, GoldenSet(notes=one.notes)) for one in gather(path).recordings]


def _read_place(place: Place, reading: _Reading, archived: bool) -> None:
    names: set[str] = set()
    for database in place.databases:
        names |= _read_database(database, place, reading, archived)
    for file in place.transcripts:
        _read_file(file, None, place, reading)
    for archive in place.archives:
        if archive.path.name in names:
            reading.passed["archived transcripts that the database holds, too"] += 1
        elif archived:
            _read_file(archive.path, archive, place, reading)
        else:
            _leave(archive.reason, archive.path.name, reading)


def _leave(reason: str, name: str, reading: _Reading) -> None:
    reading.passed[f"sessions that were {reason}, read with --format {ARCHIVED}"] += 1
    reading.left.append(f"{name} ({reason})")


def _left(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"sessions that were reset or deleted, which --format {ARCHIVED} reads, too: {len(names)}: {shown}"


def _read_file(file: Path, archive: Archive | None, place: Place, reading: _Reading) -> None:
    reading.files.append(file)
    try:
        session = read_transcript(file)
    except UnusableInput as error:
        _refuse(error, reading)
        return
    stored = f"{archive.reason}, {session.stored}" if archive else session.stored
    origin = place.origins.get(session.recording.conversation, "")
    reading.sessions.append(
        session._replace(agent=place.agent, stored=stored, origin=origin, archive=archive.path.name if archive else "")
    )


def _read_database(file: Path, place: Place, reading: _Reading, archived: bool) -> set[str]:
    """Take the sessions of a database; return the names of the archives that it holds."""
    database = read_database(file, archives=archived)
    reading.files.append(file)
    reading.digests[file] = database.digest
    reading.notes += [f"{file}: {note}" for note in database.notes]
    stored = f"SQLite {database.version}" + (f" ({database.host})" if database.host else "")
    for one in database.sessions:
        session = session_of(one.session, one.transcript, (one.branch, one.lost), one.notes, is_file=False)
        if not session.recording.turns:
            reading.passed[WITHOUT_TURN] += 1
            reading.passed.update(session.passed)
            reading.notes.append(f"{file}: session {one.session}: nobody says anything in it, so it is passed over")
            continue
        reading.sessions.append(session._replace(file=file, agent=place.agent, stored=stored, origin=one.origin))
    for kept in database.archives:
        if kept.data is None and kept.problem is None:
            _leave(kept.reason, kept.name, reading)
            continue
        at = Path(f"{file}:{kept.name}")
        try:
            session = _archived(kept, at)
        except UnusableInput as error:
            _refuse(error, reading)
            continue
        named = f"{kept.reason}, {session.stored} in {stored}"
        reading.sessions.append(session._replace(file=file, agent=place.agent, stored=named, archive=kept.name))
    return {kept.name for kept in database.archives}


def _archived(kept: StoredArchive, at: Path) -> Session:
    if kept.data is None:
        raise UnusableInput(f"{at}: {kept.problem}")
    return read_data(kept.data, at)


def _refuse(error: UnusableInput, reading: _Reading) -> None:
    reading.refused.append(error)
    reading.passed["transcripts that cannot be read, or in which nobody says anything"] += 1
    reading.notes.append(f"passed over: {error}")


def _nothing(path: Path, reading: _Reading) -> UnusableInput:
    """Why there is nothing to read at a path."""
    if path.is_file() and reading.refused:
        return reading.refused[0]
    if reading.left:
        return UnusableInput(
            f"{path}: holds only sessions that were reset or deleted ({len(reading.left)}); "
            f"--format {ARCHIVED} reads them"
        )
    if reading.files:
        more = f"; the first: {reading.refused[0]}" if reading.refused else ""
        return UnusableInput(
            f"{path}: holds {counted(len(reading.files), 'file')} of sessions, and nobody says anything that can be "
            f"read in them{more}"
        )
    places = "a host's home (~/.openclaw), an agent's folder, a folder of sessions, a .sqlite or a .jsonl file"
    return UnusableInput(
        f"{path}: no *.jsonl or openclaw-agent.sqlite here, which format 'openclaw' reads; give {places}"
    )
