"""The SQLite file of the document index: its tables, and opening it (E-48)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from lab.base.errors import UnusableInput
from lab.base.sqlite import BUSY_SECONDS, full_text_index, is_empty, number, transaction

_APPLICATION, _VERSION = 0x6C616264, 1
_TABLES = (
    """CREATE TABLE chunks (
        id INTEGER PRIMARY KEY, record_ref TEXT NOT NULL UNIQUE, doc_id TEXT NOT NULL, place INTEGER NOT NULL,
        repo TEXT NOT NULL, repo_key TEXT NOT NULL, path TEXT NOT NULL, doc_kind TEXT NOT NULL, title TEXT NOT NULL,
        heading_path TEXT NOT NULL, text TEXT NOT NULL, ts_hint TEXT, content_hash TEXT NOT NULL)""",
    """CREATE TABLE vectors (
        content_hash TEXT NOT NULL, model TEXT NOT NULL, dimension INTEGER NOT NULL, vector BLOB NOT NULL,
        PRIMARY KEY (content_hash, model)) WITHOUT ROWID""",
    *full_text_index("chunks_fts", "chunks", ("title", "heading_path", "text"), "chunk", ", tokenize='unicode61'"),
)


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file, or create it with empty tables. Raise :class:`UnusableInput` if it contains something else."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # It contains the documents' text. SQLite gives its companion files the same permissions.
            path.touch(mode=0o600)
        db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    except (OSError, sqlite3.Error) as error:
        raise UnusableInput(f"{path}: cannot be opened as a document index: {error}") from None
    try:
        if not _is_ours(db):
            with transaction(db):
                # Another process may have created them in the meantime.
                if not _is_ours(db):
                    _make_tables(db, path)
    except sqlite3.Error as error:
        db.close()
        raise UnusableInput(f"{path}: cannot be used as a document index ({error}); name another file") from None
    except UnusableInput:
        db.close()
        raise
    return db


def unpacked(data: bytes) -> sqlite3.Connection:
    """Return an in-memory database from the result of ``Connection.serialize``."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.deserialize(data)
    return db


def _is_ours(db: sqlite3.Connection) -> bool:
    return number(db, "PRAGMA application_id") == _APPLICATION and number(db, "PRAGMA user_version") == _VERSION


def _make_tables(db: sqlite3.Connection, path: Path) -> None:
    if number(db, "PRAGMA user_version") or not is_empty(db):
        raise UnusableInput(f"{path}: contains another database, or an index of another version; name another file")
    # executescript would commit first.
    for statement in _TABLES:
        db.execute(statement)
    db.execute(f"PRAGMA application_id = {_APPLICATION}")
    db.execute(f"PRAGMA user_version = {_VERSION}")
