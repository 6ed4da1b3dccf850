"""Create the tables of episodes in a ledger (EP-1), and open it so that no other table can be written (EP-7).

``episodic_events`` with its full-text index and ``episodic_event_embeddings`` are as the sidecar writes them, so that
each program reads the other's file (EP-10); ``lab_episodes_fts`` is the lab's own index, and
``lab_expired_episodes`` has the ids of events that :mod:`lab.memory.episodes.ingest` removed; the sidecar reads
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
from lab.base.sqlite import allow_changes_of, create_missing, full_text_index, is_damaged_index, tables, transaction
from lab.memory.ledger import ledger

EVENTS, VECTORS, EXPIRED = "episodic_events", "episodic_event_embeddings", "lab_expired_episodes"
# The sidecar's full-text index, and the lab's, which has stems of words.
FTS, STEMS = "episodic_events_fts", "lab_episodes_fts"
_INDEXED = ("summary", "search_text", "type", "session_id", "agent_id")


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
    *full_text_index(FTS, EVENTS, _INDEXED, "episodic_events"),
    *full_text_index(STEMS, EVENTS, _INDEXED, "lab_episodes", ", tokenize='porter unicode61'"),
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
        allow_changes_of(connection, _OWN)
        if not new and EVENTS not in tables(connection):
            raise UnusableInput(f"{path}: has no episodes; add some with lab memory episodes ingest --write")
        try:
            if write or new:
                with transaction(connection):
                    create_missing(connection, _STATEMENTS, EVENTS)
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
