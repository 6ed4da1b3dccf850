"""The tables of a ledger (LD-1): those that the public sidecar searches, and two of the lab's own.

``observations``, ``observations_fts`` and ``observations_fts_tri`` are as the sidecar writes them, so that each program
reads the other's file. The two search tables hold no text of their own, and no trigger fills them: code that inserts an
observation indexes it (:func:`index`). ``lab_sources`` and ``lab_origins`` say which bytes of which log an observation
came from; the sidecar does not read them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from lab.base.errors import UnusableInput
from lab.base.sqlite import create_missing, is_empty, tables

COLUMNS = ("id", "ts", "kind", "summary", "summary_en", "lang", "tool_name", "detail_json")
# The newest version of the sidecar's schema that the lab knows (openclaw-context-pack 2.0.0).
NEWEST_VERSION = 3
FTS = "observations_fts"
TRIGRAM = "observations_fts_tri"

_TABLES = """
CREATE TABLE IF NOT EXISTS observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, kind TEXT, summary TEXT, summary_en TEXT, lang TEXT,
    tool_name TEXT, detail_json TEXT
);
CREATE INDEX IF NOT EXISTS idx_observations_tool_ts ON observations(tool_name, ts);
"""
_SEARCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS observations_fts USING fts5(
    summary, summary_en, tool_name, detail_json, content='observations', content_rowid='id'
);
CREATE VIRTUAL TABLE IF NOT EXISTS observations_fts_tri USING fts5(
    summary, summary_en, content='observations', content_rowid='id', tokenize='trigram'
);
"""
# A source is known by its first line and by the digest of what was read of it, never by its name alone, so that a log
# that was rotated or copied is not read twice. ``archived`` is the path that rotation moves it to.
_OF_THE_LAB = """
CREATE TABLE IF NOT EXISTS lab_sources (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, head TEXT NOT NULL, position INTEGER NOT NULL, lines INTEGER NOT NULL,
    digest TEXT NOT NULL, archived TEXT
);
CREATE INDEX IF NOT EXISTS lab_sources_head ON lab_sources(head);
CREATE TABLE IF NOT EXISTS lab_origins (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, source_id INTEGER NOT NULL, line INTEGER NOT NULL,
    position INTEGER NOT NULL, lengths BLOB NOT NULL
);
"""


def create(connection: sqlite3.Connection) -> None:
    """Create the tables that are missing, and index the observations in new search tables; nothing else is changed.

    The version of the sidecar's schema is left as it is: in a new file it is 0, and the sidecar adds its other tables
    when it opens the file.
    """
    statements = "".join((_TABLES, _SEARCH, _OF_THE_LAB)).split(";")
    create_missing(connection, filter(None, map(str.strip, statements)), "observations")


def check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise :class:`UnusableInput` if the file is no ledger, or one of a newer schema."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if is_empty(connection):
        raise UnusableInput(
            f"{path}: is an empty database, not a ledger; fill it with lab memory ledger ingest --write"
        )
    names = tables(connection)
    if "observations" not in names:
        shown = ", ".join(sorted(names)[:5]) or "none"
        raise UnusableInput(f"{path}: is not a ledger: it has no table observations (tables: {shown})")
    columns = {row[1] for row in connection.execute("PRAGMA table_info(observations)")}
    if missing := [name for name in COLUMNS if name not in columns]:
        raise UnusableInput(
            f"{path}: table observations has no column {missing[0]}; open the file once with the sidecar, which adds it"
        )
    if version > NEWEST_VERSION:
        raise UnusableInput(
            f"{path}: schema version {version} is newer than {NEWEST_VERSION}, the newest that is known; update the lab"
        )


def index(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Add the observations of these ids to the search tables. They must not be in them yet."""
    for table, columns in (
        (FTS, "summary, summary_en, tool_name, detail_json"),
        (TRIGRAM, "summary, summary_en"),
    ):
        connection.execute(
            f"INSERT INTO {table}(rowid, {columns}) SELECT id, {columns} FROM observations WHERE id BETWEEN ? AND ?",  # noqa: S608 - names of our own tables
            (first, last),
        )
