"""Sessions in ``agents/<id>/agent/openclaw-agent.sqlite``, which OpenClaw writes since it left JSON Lines files.

Only what is needed is required of the schema: a version other than the known one is read where its columns are there,
with a note on what differs.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.errors import UnusableInput
from lab.recordings.openclaw.entries import Entry, Spoilt, Transcript, active_branch, parse
from lab.recordings.openclaw.sqlite import read_sqlite
from lab.recordings.openclaw.unpack import TRANSCRIPT_LIMIT, CannotUnpack, unpack, unpack_event

KNOWN_VERSION = 23
EVENTS = "transcript_events"
# What is read of each table, and whether it has to be there.
COLUMNS: dict[str, tuple[str, ...]] = {
    EVENTS: ("session_id", "seq", "event_json", "event_zstd", "event_utf8_bytes"),
    "session_transcript_index_state": ("session_id", "indexed_seq", "leaf_event_id", "needs_rebuild"),
    "session_transcript_active_events": ("session_id", "event_seq"),
    "session_windows": ("session_id", "session_key"),
    "session_nodes": ("session_key", "created_via"),
    "session_transcript_archives": (
        "session_id",
        "reason",
        "encoding",
        "archive_blob",
        "archive_sha256",
        "archive_name",
    ),
    "schema_meta": ("meta_key", "app_version"),
}
# All columns that the tables above have in the known version: another one is named.
ALL_COLUMNS: dict[str, tuple[str, ...]] = {
    EVENTS: (*COLUMNS[EVENTS], "created_at", "navigation_json"),
    "session_transcript_index_state": (
        *COLUMNS["session_transcript_index_state"],
        *("active_event_count", "active_message_count", "updated_at"),
    ),
    "session_transcript_active_events": (
        *COLUMNS["session_transcript_active_events"],
        *("active_position", "message_position", "context_eligible"),
    ),
    "session_transcript_archives": (
        *COLUMNS["session_transcript_archives"],
        *("generation", "session_key", "created_at", "published_at", "publish_attempts"),
        *("last_publish_attempt_at", "last_publish_error"),
    ),
}


class StoredSession(NamedTuple):
    """A session of the database: its transcript, its active branch, how it began, and what was noticed."""

    session: str
    transcript: Transcript
    branch: list[Entry]
    lost: int
    origin: str
    notes: tuple[str, ...]


class StoredArchive(NamedTuple):
    """A transcript that the database keeps of a session that was reset or deleted; ``data`` only on request."""

    name: str
    session: str
    reason: str
    data: bytes | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Database:
    """What was read: sessions, archives, the version of schema and host, notes, and a digest of the events."""

    sessions: tuple[StoredSession, ...]
    archives: tuple[StoredArchive, ...]
    version: int
    host: str
    notes: tuple[str, ...]
    digest: str


def read_database(path: Path, *, archives: bool = False) -> Database:
    """Read all sessions of one moment, and with ``archives`` what is kept of those that were reset or deleted.

    Raises :class:`UnusableInput` for what is no such database, is damaged, or has a schema that lacks something, and
    :class:`lab.errors.CannotMeasure` where another process holds it locked.
    """
    return read_sqlite(path, lambda connection: _read(path, connection, archives))


def _read(path: Path, connection: sqlite3.Connection, archives: bool) -> Database:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    ):
        tables.setdefault(_word(table), set()).add(_word(column))
    notes = _compared(path, version, tables)
    has = {name for name, columns in COLUMNS.items() if name in tables and set(columns) <= tables[name]}
    host = _host(connection) if "schema_meta" in has else ""
    origins = _origins(connection, has)
    leaves, active = _indexed(connection, has)
    hashed = hashlib.sha256()
    sessions = []
    names = connection.execute(
        "SELECT DISTINCT session_id, typeof(session_id) FROM transcript_events ORDER BY 1"
    ).fetchall()
    for raw, kind in names:
        session = _word(raw)
        lines = _events(connection, raw, _word(kind), hashed)
        transcript = parse(lines)
        leaf, indexed = leaves.get(session, (None, -1))
        branch, lost, told = _branch(transcript, leaf if indexed >= transcript.lines - 1 else None, active.get(session))
        hashed.update(repr((session, leaf)).encode())
        sessions.append(StoredSession(session, transcript, branch, lost, origins.get(session, ""), tuple(told)))
    kept = tuple(_archives(connection, archives, hashed)) if "session_transcript_archives" in has else ()
    notes += [
        f"table {name} holds rows that this version does not read: {count}"
        for name in sorted(tables)
        if name.startswith("session_transcript_") and name.endswith("archives") and name not in COLUMNS
        if (count := connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0])  # noqa: S608 - its own name
    ]
    return Database(tuple(sessions), kept, version, host, tuple(notes), hashed.hexdigest())


def _compared(path: Path, version: int, tables: dict[str, set[str]]) -> list[str]:
    """Notes on a schema that is not the known one; refuse one that cannot be read."""
    if EVENTS not in tables:
        named = ", ".join(sorted(tables)[:5]) or "none"
        raise UnusableInput(
            f"{path}: has no table {EVENTS}, so it is no database of an OpenClaw agent "
            f"(user_version {version}; tables: {named}); give agents/<id>/agent/openclaw-agent.sqlite"
        )
    missing = [one for one in COLUMNS[EVENTS] if one not in tables[EVENTS]]
    differs = [f"no table {table}" for table in COLUMNS if table not in tables]
    differs += [
        f"no column {table}.{one}"
        for table in COLUMNS
        if table in tables
        for one in COLUMNS[table]
        if one not in tables[table]
    ]
    differs += [
        f"a new column {table}.{one}"
        for table, columns in ALL_COLUMNS.items()
        for one in sorted(tables.get(table, set()) - set(columns))
    ]
    if missing:
        raise UnusableInput(
            f"{path}: schema version {version} (known: {KNOWN_VERSION}) lacks {', '.join(missing)} in {EVENTS}, so its "
            f"events cannot be read; it differs in: {', '.join(differs)}"
        )
    if version != KNOWN_VERSION or differs:
        return [
            f"schema version {version} (known: {KNOWN_VERSION}) differs in: "
            + (", ".join(differs) or "nothing that is read")
        ]
    return []


def _host(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT app_version FROM schema_meta WHERE meta_key = 'primary'").fetchone()
    return _word(row[0]) if row else ""


def _origins(connection: sqlite3.Connection, has: set[str]) -> dict[str, str]:
    """How each session began, as far as its rows tell: a sub-agent, a scheduled job, or what created it."""
    if "session_windows" not in has:
        return {}
    via: dict[str, str] = {}
    if "session_nodes" in has:
        rows = connection.execute("SELECT session_key, created_via FROM session_nodes")
        via = {_word(key): _word(made) for key, made in rows}
    rows = connection.execute("SELECT session_id, session_key FROM session_windows")
    return {_word(session): origin_of(_word(key), via.get(_word(key), "")) for session, key in rows}


def origin_of(key: str, created_via: str = "") -> str:
    """Return how a session began, by its key ``agent:<agent>:<rest>`` or by what the host says; "" if unknown."""
    rest = key.split(":")[2:]
    return rest[0] if rest and rest[0] in ("subagent", "cron", "hook", "acp") else created_via


def _indexed(
    connection: sqlite3.Connection, has: set[str]
) -> tuple[dict[str, tuple[str | None, int]], dict[str, set[int]]]:
    """The end of each session's active branch with how far it was indexed, and the events that are listed as active."""
    leaves: dict[str, tuple[str | None, int]] = {}
    active: dict[str, set[int]] = {}
    if "session_transcript_index_state" not in has:
        return leaves, active
    for session, indexed, leaf, rebuild in connection.execute(
        "SELECT session_id, indexed_seq, leaf_event_id, needs_rebuild FROM session_transcript_index_state"
    ):
        if not rebuild and isinstance(indexed, int):
            leaves[_word(session)] = (_word(leaf) or None, indexed)
    if "session_transcript_active_events" in has:
        for session, seq in connection.execute("SELECT session_id, event_seq FROM session_transcript_active_events"):
            if (name := _word(session)) in leaves:
                active.setdefault(name, set()).add(seq)
    return leaves, active


def _branch(transcript: Transcript, leaf: str | None, active: set[int] | None) -> tuple[list[Entry], int, list[str]]:
    """The active branch, and notes where the database and the entries disagree on it.

    The end that the database names is taken where it is an entry: somebody may have gone back in the conversation.
    """
    entries = [one for one in transcript.entries if one.value["type"] != "session"]
    known = {str(one.value.get("id", one.id)) for one in entries}
    notes = []
    if leaf is not None and leaf not in known:
        notes.append(f"the end of the active branch is {leaf!r}, which no event is; the last event was taken")
        leaf = None
    branch, lost = active_branch(entries, leaf)
    if leaf is not None and entries:
        last, _ = active_branch(entries)
        if (others := len({one.line for one in last} ^ {one.line for one in branch})) > 0:
            notes.append(
                f"the active branch ends before the last event, as the database says; events that differ: {others}"
            )
        walked = {one.line - 1 for one in branch}
        if active and (differing := len((active ^ walked) - {one.line - 1 for one in transcript.spoilt})):
            notes.append(
                f"events that the database lists as active and the walk does not find, or the reverse: {differing}"
            )
    return branch, lost, notes


def _events(
    connection: sqlite3.Connection, session: object, kind: str, hashed: Any
) -> Iterator[tuple[int, bytes | Spoilt]]:
    """The lines of a session as they would stand in a file, each with its number; ``kind`` is SQLite's type of its id.

    One that does not unpack is replaced by the reason; so is one without a number, and these come first, as line 0.
    """
    # Texts are read as bytes, and bytes are a blob to SQLite, which no text equals.
    given = "CAST(? AS TEXT)" if kind == "text" else "?"
    columns = "seq, event_json, event_zstd, event_utf8_bytes"
    order = "typeof(seq) = 'integer', seq"
    rows = connection.execute(
        f"SELECT {columns} FROM transcript_events WHERE session_id IS {given} ORDER BY {order}",  # noqa: S608 - as above
        (session,),
    )
    for seq, plain, packed, size in rows:
        line: bytes | Spoilt
        number = seq + 1 if isinstance(seq, int) else 0
        if not isinstance(seq, int):
            line = Spoilt(0, f"has a seq that is no whole number ({'NULL' if seq is None else _word(seq)[:20]!r})")
        elif plain is not None:
            line = plain if isinstance(plain, bytes) else str(plain).encode()
        else:
            try:
                line = unpack_event(packed if isinstance(packed, bytes) else b"", size)
            except CannotUnpack as error:
                line = Spoilt(number, str(error))
        hashed.update(repr((session, seq)).encode())
        hashed.update(line if isinstance(line, bytes) else line.reason.encode())
        yield number, line


def _archives(connection: sqlite3.Connection, wanted: bool, hashed: Any) -> Iterator[StoredArchive]:
    rows = connection.execute(
        "SELECT archive_name, session_id, reason, encoding, CASE WHEN ? THEN archive_blob END, archive_sha256 "
        "FROM session_transcript_archives ORDER BY archive_name",
        (wanted,),
    )
    for name, session, reason, encoding, data, digest in rows:
        problem, found = None, None
        if wanted:
            hashed.update(repr((name, digest)).encode())
            found, problem = _archived(data, _word(encoding))
        yield StoredArchive(_word(name), _word(session), _word(reason), found, problem)


def _archived(data: object, encoding: str) -> tuple[bytes | None, str | None]:
    if not isinstance(data, bytes):
        return None, "holds nothing"
    if encoding == "identity":
        return data, None
    if encoding != "zstd":
        return None, f"has the unknown encoding {encoding!r}"
    try:
        return unpack(data, TRANSCRIPT_LIMIT), None
    except CannotUnpack as error:
        return None, str(error)


def _word(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
