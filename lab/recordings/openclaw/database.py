"""Read sessions from ``agents/<id>/agent/openclaw-agent.sqlite``, where OpenClaw stores them since 2026.9.

A database with another schema version is read if it has the required columns; a note lists the differences.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.sqlite import read_sqlite
from lab.recordings.openclaw.entries import (
    TRANSCRIPT_LIMIT,
    CannotUnpack,
    Entry,
    Spoilt,
    Transcript,
    active_branch,
    parse,
    unpack,
    unpack_event,
)
from lab.recordings.openclaw.origins import origin_of
from lab.recordings.origins import UNKNOWN_ORIGIN

KNOWN_VERSION = 23
EVENTS = "transcript_events"
# The columns that are read. Only those of EVENTS are required.
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
# All columns of these tables in the known version; others are reported as new.
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


# Columns that say what started a session, by the names that its entry in an index has for them.
FACTS = {
    "session_windows": {
        "chat_type": "chatType",
        "hook_external_content_source": "hookExternalContentSource",
        "spawned_by": "spawnedBy",
    },
    "session_nodes": {"created_via": "createdVia", "spawned_by": "spawnedBy"},
}


class StoredSession(NamedTuple):
    """A session of the database: transcript, active branch, entries without a parent, origin and notes.

    ``origin`` is what the database says of it (OR-1 to OR-3); its transcript may say more.
    """

    session: str
    transcript: Transcript
    branch: list[Entry]
    lost: int
    origin: str
    notes: tuple[str, ...]


class StoredArchive(NamedTuple):
    """The archived transcript of a session that was reset or deleted; ``data`` is None unless requested."""

    name: str
    session: str
    origin: str
    reason: str
    data: bytes | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Database:
    """The sessions and archives of a database, its schema and host versions, notes, and the events' content digest."""

    sessions: tuple[StoredSession, ...]
    archives: tuple[StoredArchive, ...]
    version: int
    host: str
    notes: tuple[str, ...]
    digest: str


def read_database(path: Path, *, archives: bool = False) -> Database:
    """Read a consistent snapshot of all sessions; with ``archives``, also the data of reset and deleted sessions.

    Raises :class:`UnusableInput` for a file that is not an agent's database, is damaged, or lacks a required column,
    and :class:`lab.base.errors.CannotMeasure` if another process holds a lock.
    """
    return read_sqlite(path, lambda connection: _read(path, connection, archives))


def _read(path: Path, connection: sqlite3.Connection, archives: bool) -> Database:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables: dict[str, set[str]] = {}
    for table, column in connection.execute(
        "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
    ):
        tables.setdefault(_word(table), set()).add(_word(column))
    notes = _check_schema(path, version, tables)
    has = {name for name, columns in COLUMNS.items() if name in tables and set(columns) <= tables[name]}
    host = _host(connection) if "schema_meta" in has else ""
    nodes = _nodes(connection, tables) if "session_nodes" in has else {}
    origins = _origins(connection, tables, nodes) if "session_windows" in has else {}
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
        branch, lost, branch_notes = _branch(
            transcript, leaf if indexed >= transcript.lines - 1 else None, active.get(session)
        )
        hashed.update(repr((session, leaf)).encode())
        origin = origins.get(session, UNKNOWN_ORIGIN)
        sessions.append(StoredSession(session, transcript, branch, lost, origin, tuple(branch_notes)))
    has_key = "session_key" in tables.get("session_transcript_archives", ())
    archived = (
        tuple(_archives(connection, archives, hashed, nodes, has_key=has_key))
        if "session_transcript_archives" in has
        else ()
    )
    notes += [
        f"table {name} has rows that the lab does not read: {count}"
        for name in sorted(tables)
        if name.startswith("session_transcript_") and name.endswith("archives") and name not in COLUMNS
        if (count := connection.execute(f"SELECT count(*) FROM {_quoted(name)}").fetchone()[0])  # noqa: S608 - its own name
    ]
    return Database(tuple(sessions), archived, version, host, tuple(notes), hashed.hexdigest())


def _check_schema(path: Path, version: int, tables: dict[str, set[str]]) -> list[str]:
    """Return a note if the schema differs from the known one. Raises :class:`UnusableInput` if it is unreadable."""
    if EVENTS not in tables:
        named = ", ".join(sorted(tables)[:5]) or "none"
        raise UnusableInput(
            f"{path}: has no table {EVENTS}, so it is not the database of an OpenClaw agent "
            f"(user_version {version}; tables: {named}); give agents/<id>/agent/openclaw-agent.sqlite"
        )
    missing = [column for column in COLUMNS[EVENTS] if column not in tables[EVENTS]]
    differs = [f"no table {table}" for table in COLUMNS if table not in tables]
    differs += [
        f"no column {table}.{column}"
        for table in COLUMNS
        if table in tables
        for column in COLUMNS[table]
        if column not in tables[table]
    ]
    differs += [
        f"a new column {table}.{column}"
        for table, known_columns in ALL_COLUMNS.items()
        for column in sorted(tables.get(table, set()) - set(known_columns))
    ]
    if missing:
        raise UnusableInput(
            f"{path}: schema version {version} (known: {KNOWN_VERSION}) lacks {', '.join(missing)} in {EVENTS}, so its "
            f"events cannot be read; differences: {', '.join(differs)}"
        )
    if version != KNOWN_VERSION or differs:
        return [
            f"schema version {version} (known: {KNOWN_VERSION}); differences: "
            + (", ".join(differs) or "none in the columns that are read")
        ]
    return []


def _host(connection: sqlite3.Connection) -> str:
    row = connection.execute("SELECT app_version FROM schema_meta WHERE meta_key = 'primary'").fetchone()
    return _word(row[0]) if row else ""


def _nodes(connection: sqlite3.Connection, tables: dict[str, set[str]]) -> dict[str, dict[str, Any]]:
    """Return what the database says of each session, by its key: its entry, and the columns beside it."""
    nodes: dict[str, dict[str, Any]] = {}
    for facts in _facts(connection, "session_nodes", ("session_key", "entry_json"), tables):
        entry: Any = None
        with contextlib.suppress(ValueError, RecursionError):
            entry = json.loads(facts.pop("entry_json", ""))
        nodes[facts.pop("session_key", "")] = (entry if isinstance(entry, dict) else {}) | facts
    return nodes


def _origins(
    connection: sqlite3.Connection, tables: dict[str, set[str]], nodes: dict[str, dict[str, Any]]
) -> dict[str, str]:
    """Return what started each session, by session id."""
    origins = {}
    for facts in _facts(connection, "session_windows", ("session_id", "session_key"), tables):
        key = facts.pop("session_key", "")
        origins[facts.pop("session_id", "")] = origin_of(key, nodes.get(key, {}) | facts)
    return origins


def _facts(
    connection: sqlite3.Connection, table: str, columns: tuple[str, ...], tables: dict[str, set[str]]
) -> Iterator[dict[str, Any]]:
    """Yield ``columns`` and :data:`FACTS` of each row as texts, by the names of an index, without what is empty."""
    there = [column for column in (*columns, *FACTS[table]) if column in tables[table]]
    names = [FACTS[table].get(column, column) for column in there]
    for row in connection.execute(f"SELECT {', '.join(there)} FROM {table}"):  # noqa: S608 - names of this module
        texts = zip(names, map(_word, row), strict=True)
        yield {name: text for name, text in texts if text}


def _indexed(
    connection: sqlite3.Connection, has: set[str]
) -> tuple[dict[str, tuple[str | None, int]], dict[str, set[int]]]:
    """Return, by session, the end of the active branch with the last indexed event, and the set of active events."""
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
    """Return the active branch, the number of missing parents, and notes on disagreements with the database.

    The database's end of the branch is used if it is an entry, because a user may have gone back in the conversation.
    """
    entries = [entry for entry in transcript.entries if entry.value["type"] != "session"]
    known = {str(entry.value.get("id", entry.id)) for entry in entries}
    notes = []
    if leaf is not None and leaf not in known:
        notes.append(f"the end of the active branch is {leaf!r}, which is not an event; the last event is used")
        leaf = None
    branch, lost = active_branch(entries, leaf)
    if leaf is not None and entries:
        last, _ = active_branch(entries)
        if (others := len({entry.line for entry in last} ^ {entry.line for entry in branch})) > 0:
            notes.append(
                f"according to the database, the active branch ends before the last event; events that differ: {others}"
            )
        walked = {entry.line - 1 for entry in branch}
        if active and (differing := len((active ^ walked) - {entry.line - 1 for entry in transcript.spoilt})):
            notes.append(
                f"events that are active according to only one of the database and the parent links: {differing}"
            )
    return branch, lost, notes


def _events(
    connection: sqlite3.Connection, session: object, kind: str, hashed: Any
) -> Iterator[tuple[int, bytes | Spoilt]]:
    """Yield the events of a session as numbered lines of a transcript file; ``kind`` is SQLite's type of the id.

    An event that cannot be unpacked is replaced by the reason. So is an event without a number; these come first, as
    line 0.
    """
    # The connection returns text as bytes, which SQLite would compare as a blob, and a blob never equals a text.
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
            line = Spoilt(0, f"has a seq that is not an integer ({'NULL' if seq is None else _word(seq)[:20]!r})")
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


def _archives(
    connection: sqlite3.Connection, include_data: bool, hashed: Any, nodes: dict[str, dict[str, Any]], *, has_key: bool
) -> Iterator[StoredArchive]:
    rows = connection.execute(
        f"SELECT archive_name, session_id, {'session_key' if has_key else 'NULL'}, reason, encoding, "  # noqa: S608 - fixed names
        "CASE WHEN ? THEN archive_blob END, archive_sha256 FROM session_transcript_archives ORDER BY archive_name",
        (include_data,),
    )
    for name, session, key, reason, encoding, data, digest in rows:
        problem, content = None, None
        if include_data:
            hashed.update(repr((name, digest)).encode())
            content, problem = _archived(data, _word(encoding))
        origin = origin_of(_word(key), nodes.get(_word(key)))
        yield StoredArchive(_word(name), _word(session), origin, _word(reason), content, problem)


def _archived(data: object, encoding: str) -> tuple[bytes | None, str | None]:
    if not isinstance(data, bytes):
        return None, "is empty"
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
