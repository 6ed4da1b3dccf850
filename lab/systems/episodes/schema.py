"""The tables of episodes in a ledger (EP-1), and a connection that can write no other table (EP-7).

``episodic_events`` with its full-text index and ``episodic_event_embeddings`` are as the sidecar writes them, so that
each program reads the other's file (EP-10); triggers keep the index up to date. ``lab_expired_episodes`` has the ids of
events that :mod:`lab.systems.episodes.retention` removed; the sidecar does not read it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import UnusableInput
from lab.systems.sidecar import ledger
from lab.systems.sidecar.ledger_schema import tables

EVENTS, VECTORS, FTS, EXPIRED = (
    "episodic_events",
    "episodic_event_embeddings",
    "episodic_events_fts",
    "lab_expired_episodes",
)
_COLUMNS = "summary, search_text, type, session_id, agent_id"
_NEW = "new.id, new.summary, new.search_text, new.type, new.session_id, new.agent_id"
_OLD = "old.id, old.summary, old.search_text, old.type, old.session_id, old.agent_id"
_INSERT = f"INSERT INTO {FTS}(rowid, {_COLUMNS}) VALUES ({_NEW});"  # noqa: S608 - names of our own tables
_DELETE = f"INSERT INTO {FTS}({FTS}, rowid, {_COLUMNS}) VALUES ('delete', {_OLD});"  # noqa: S608 - names of our own tables
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
    f"CREATE VIRTUAL TABLE IF NOT EXISTS {FTS} USING fts5({_COLUMNS}, content='{EVENTS}', content_rowid='id')",
    f"CREATE TRIGGER IF NOT EXISTS episodic_events_ai AFTER INSERT ON {EVENTS} BEGIN {_INSERT} END",
    f"CREATE TRIGGER IF NOT EXISTS episodic_events_ad AFTER DELETE ON {EVENTS} BEGIN {_DELETE} END",
    f"CREATE TRIGGER IF NOT EXISTS episodic_events_au AFTER UPDATE ON {EVENTS} BEGIN {_DELETE} {_INSERT} END",
    f"CREATE TABLE IF NOT EXISTS {EXPIRED} (event_id TEXT PRIMARY KEY) WITHOUT ROWID",
)
_WRITES = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE)


@contextmanager
def open_episodes(path: Path, *, write: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the episodes of a ledger, as :func:`lab.systems.sidecar.ledger.open_ledger` does.

    It refuses to change any table but those of episodes (EP-7). With ``write`` the tables that are missing are created,
    and the events are indexed in a new full-text index. Raises :class:`UnusableInput` also if the ledger has no
    episodes and ``write`` is not given.
    """
    with ledger.open_ledger(path, write=write, new=new) as connection:
        connection.set_authorizer(_only_episodes)
        if write or new:
            with ledger.transaction(connection):
                _create(connection)
        elif EVENTS not in tables(connection):
            raise UnusableInput(f"{path}: has no episodes; add some with lab episodes ingest --write")
        yield connection


def has_index(connection: sqlite3.Connection) -> bool:
    """Return whether the ledger has a full-text index of its episodes."""
    return FTS in tables(connection)


def _create(connection: sqlite3.Connection) -> None:
    is_indexed = has_index(connection)
    for statement in _STATEMENTS:
        connection.execute(statement)
    if not is_indexed:
        connection.execute(f"INSERT INTO {FTS}({FTS}) VALUES ('rebuild')")  # noqa: S608 - names of our own tables


def _only_episodes(action: int, name: str | None, *_: str | None) -> int:
    """Deny every change of a table that has no episodes; ``sqlite_`` are SQLite's own."""
    allowed = action not in _WRITES or (name or "").startswith(("episodic_", EXPIRED, "sqlite_"))
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY
