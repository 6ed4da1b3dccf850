"""The tables of episodes in a ledger (EP-1), and a connection that cannot write any other table (EP-7).

``episodic_events`` with its full-text index and ``episodic_event_embeddings`` are as the sidecar writes them, so that
each program reads the other's file (EP-10); ``lab_episodes_fts`` is the lab's own index, and
``lab_expired_episodes`` has the ids of events that :mod:`lab.memory.episodes.retention` removed; the sidecar reads
neither. Triggers keep both indexes up to date, whichever program writes.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from lab.base.errors import UnusableInput
from lab.memory.ledger import ledger
from lab.memory.ledger.schema import tables

EVENTS, VECTORS, EXPIRED = "episodic_events", "episodic_event_embeddings", "lab_expired_episodes"
# The sidecar's full-text index, and the lab's, which has stems of words.
FTS, STEMS = "episodic_events_fts", "lab_episodes_fts"
_INDEXED = ("summary", "search_text", "type", "session_id", "agent_id")


def _index(table: str, triggers: str, options: str = "") -> tuple[str, ...]:
    """Return the statements that make a full-text index of the events and keep it up to date."""
    columns, new, old = (", ".join(f"{row}{name}" for name in _INDEXED) for row in ("", "new.", "old."))
    insert = f"INSERT INTO {table}(rowid, {columns}) VALUES (new.id, {new});"  # noqa: S608 - names of our own tables
    delete = f"INSERT INTO {table}({table}, rowid, {columns}) VALUES ('delete', old.id, {old});"  # noqa: S608 - names of our own tables
    content = f"content='{EVENTS}', content_rowid='id'"
    made = f"CREATE TRIGGER IF NOT EXISTS {triggers}"
    return (
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5({columns}, {content}{options})",
        f"{made}_ai AFTER INSERT ON {EVENTS} BEGIN {insert} END",
        f"{made}_ad AFTER DELETE ON {EVENTS} BEGIN {delete} END",
        f"{made}_au AFTER UPDATE ON {EVENTS} BEGIN {delete} {insert} END",
    )


_STATEMENTS = (
    f"""CREATE TABLE IF NOT EXISTS {EVENTS} (
        id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, ts_ms INTEGER NOT NULL, scope TEXT NOT NULL,
        session_id TEXT NOT NULL, agent_id TEXT NOT NULL, type TEXT NOT NULL, summary TEXT NOT NULL, payload_json TEXT,
        refs_json TEXT, redacted INTEGER NOT NULL DEFAULT 0, schema_version TEXT NOT NULL, created_at TEXT NOT NULL,
        search_text TEXT NOT NULL DEFAULT ''
    )""",
    f"CREATE UNIQUE INDEX IF NOT EXISTS uq_episodic_event_id ON {EVENTS}(event_id)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_scope_ts ON {EVENTS}(scope, ts_ms)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_session_ts ON {EVENTS}(session_id, ts_ms)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_scope_type_ts ON {EVENTS}(scope, type, ts_ms)",
    f"""CREATE TABLE IF NOT EXISTS {VECTORS} (
        event_row_id INTEGER PRIMARY KEY, model TEXT NOT NULL, dim INTEGER NOT NULL, vector BLOB NOT NULL,
        norm REAL NOT NULL, search_text_hash TEXT NOT NULL, created_at TEXT NOT NULL,
        FOREIGN KEY(event_row_id) REFERENCES {EVENTS}(id) ON DELETE CASCADE
    )""",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_event_embeddings_model ON {VECTORS}(model)",
    *_index(FTS, "episodic_events"),
    *_index(STEMS, "lab_episodes", ", tokenize='porter unicode61'"),
    f"CREATE TABLE IF NOT EXISTS {EXPIRED} (event_id TEXT PRIMARY KEY) WITHOUT ROWID",
)
# Everything that these statements make, the tables in which FTS5 keeps its indexes, and SQLite's list of them all.
_OWN = frozenset(
    (
        *re.findall(r"IF NOT EXISTS (\w+)", " ".join(_STATEMENTS)),
        *(f"{table}_{part}" for table in (FTS, STEMS) for part in ("data", "idx", "content", "docsize", "config")),
        "sqlite_master",
    )
)
_READS = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
    sqlite3.SQLITE_TRANSACTION,
)
_CHANGES = (
    sqlite3.SQLITE_INSERT,
    sqlite3.SQLITE_UPDATE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_VTABLE,
    sqlite3.SQLITE_CREATE_INDEX,
    sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_CREATE_TRIGGER,
)


@contextmanager
def open_episodes(path: Path, *, write: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the episodes of a ledger, as :func:`lab.memory.ledger.ledger.open_ledger` does.

    The connection refuses to change any table but those of episodes (EP-7). With ``write``, missing tables are created,
    and the events are added to new full-text indexes. Also raises :class:`UnusableInput` if the ledger has no episodes
    and ``new`` is not given, and for a damaged index, with the remedy.
    """
    if not new and not path.exists():
        raise UnusableInput(f"{path}: no such file; make it with lab memory episodes ingest --write")
    with ledger.open_ledger(path, write=write, new=new) as connection:
        if write or new:
            # What is removed is overwritten in the file.
            connection.execute("PRAGMA secure_delete = ON")
        connection.set_authorizer(_only_episodes)
        if not new and EVENTS not in tables(connection):
            raise UnusableInput(f"{path}: has no episodes; add some with lab memory episodes ingest --write")
        try:
            if write or new:
                with ledger.transaction(connection):
                    _create(connection)
            yield connection
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
                raise UnusableInput(
                    f"{path}: a trigger or view of the file changes more than the tables of episodes, which is not "
                    "allowed; remove it, for the time of this command at least"
                ) from error
            if not is_damaged_index(error):
                raise
            raise UnusableInput(
                f"{path}: a full-text index of episodes is damaged; remove both with sqlite3 {quote(str(path))} "
                f"'DROP TABLE {FTS}; DROP TABLE {STEMS}' and run lab memory episodes ingest --write, which "
                "makes them again"
            ) from error


def is_damaged_index(error: sqlite3.DatabaseError) -> bool:
    """Return whether SQLite says that a full-text index is damaged."""
    code = getattr(error, "sqlite_errorcode", 0)
    # No statement of the lab violates a constraint of the events; a damaged index has rows that it should not have.
    return code == sqlite3.SQLITE_CORRUPT_VTAB or code & 0xFF == sqlite3.SQLITE_CONSTRAINT


def _create(connection: sqlite3.Connection) -> None:
    before = tables(connection)
    for statement in _STATEMENTS:
        connection.execute(statement)
    for table in [name for name in (FTS, STEMS) if name not in before]:
        connection.execute(f"INSERT INTO {table}({table}) VALUES ('rebuild')")  # noqa: S608 - names of our own tables


def _only_episodes(action: int, name: str | None, value: str | None, *_: str | None) -> int:
    """Allow reading, and changes of :data:`_OWN`; deny everything else, such as ALTER and ATTACH (EP-7)."""
    if action == sqlite3.SQLITE_CREATE_INDEX:
        # SQLite names the index of a key itself, so the table counts.
        name = value
    reads = action in _READS or (action == sqlite3.SQLITE_PRAGMA and value is None)
    allowed = reads or (action in _CHANGES and name in _OWN)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
