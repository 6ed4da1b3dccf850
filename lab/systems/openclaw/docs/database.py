"""The SQLite file below the documents' index: its tables, how it is opened, and its transactions (E-48)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.errors import UnusableInput

# How long a file that another process has locked is waited for, in seconds.
BUSY_SECONDS = 2.0
_APPLICATION, _VERSION = 0x6C616264, 1
_SCHEMA = """
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY, record_ref TEXT NOT NULL UNIQUE, doc_id TEXT NOT NULL, place INTEGER NOT NULL,
    repo TEXT NOT NULL, repo_key TEXT NOT NULL, path TEXT NOT NULL, doc_kind TEXT NOT NULL, title TEXT NOT NULL,
    heading_path TEXT NOT NULL, text TEXT NOT NULL, ts_hint TEXT, content_hash TEXT NOT NULL);
CREATE TABLE vectors (
    content_hash TEXT NOT NULL, model TEXT NOT NULL, dimension INTEGER NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (content_hash, model)) WITHOUT ROWID;
CREATE VIRTUAL TABLE chunks_fts USING fts5(
    title, heading_path, text, content='chunks', content_rowid='id', tokenize='unicode61');
CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
    INSERT INTO chunks_fts(rowid, title, heading_path, text) VALUES (new.id, new.title, new.heading_path, new.text);
END;
CREATE TRIGGER chunk_removed AFTER DELETE ON chunks BEGIN
    INSERT INTO chunks_fts(chunks_fts, rowid, title, heading_path, text)
    VALUES ('delete', old.id, old.title, old.heading_path, old.text);
END;
CREATE TRIGGER chunk_changed AFTER UPDATE OF title, heading_path, text ON chunks BEGIN
    INSERT INTO chunks_fts(chunks_fts, rowid, title, heading_path, text)
    VALUES ('delete', old.id, old.title, old.heading_path, old.text);
    INSERT INTO chunks_fts(rowid, title, heading_path, text) VALUES (new.id, new.title, new.heading_path, new.text);
END;
"""


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file, or make it with empty tables; a file that holds something else is :class:`UnusableInput`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # It holds the documents' text. SQLite gives the files that it puts beside it the same rights.
            path.touch(mode=0o600)
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise UnusableInput(f"{path}: cannot be opened as a documents index: {error}") from None
    try:
        if not _is_ours(db):
            with transaction(db):
                # Another process may have made them since.
                if not _is_ours(db):
                    _make_tables(db, path)
    except sqlite3.Error as error:
        db.close()
        raise UnusableInput(f"{path}: cannot be used as a documents index ({error}); name another file") from None
    except UnusableInput:
        db.close()
        raise
    return db


def unpacked(data: bytes) -> sqlite3.Connection:
    """A database in memory with what ``Connection.serialize`` gave."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(data)
    return db


def number(db: sqlite3.Connection, sql: str) -> int:
    """The single number that a statement answers with."""
    return int(db.execute(sql).fetchone()[0])


@contextmanager
def transaction(db: sqlite3.Connection, mode: str = "IMMEDIATE") -> Iterator[None]:
    """All of what is done inside, or nothing of it, whatever ends it."""
    db.execute(f"BEGIN {mode}")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        # Some faults of the disk have rolled back already.
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _is_ours(db: sqlite3.Connection) -> bool:
    return number(db, "PRAGMA application_id") == _APPLICATION and number(db, "PRAGMA user_version") == _VERSION


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    if number(db, "PRAGMA user_version") or number(db, "SELECT count(*) FROM sqlite_master"):
        raise UnusableInput(f"{path}: holds another database, or an index of another version; name another file")
    # executescript would commit first.
    statement = ""
    for line in _SCHEMA.strip().split("\n"):
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            db.execute(statement)
            statement = ""
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {_VERSION}")
