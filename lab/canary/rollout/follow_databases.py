"""Follow the transcripts of a host that keeps them in a database, as OpenClaw does since 2026.9 (CN-13).

Events are only added. The last row that was read is kept for each database; a database is opened if it or its log has
changed. One that is locked or being replaced is tried again at the next look.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lab.base.errors import LabError
from lab.base.sqlite import read_sqlite
from lab.recordings.openclaw.unpack import CannotUnpack, unpack_event

_PATTERN = "agents/*/agent/openclaw-agent.sqlite"
# Events that are read at a look.
_MOST = 2000
# Instead of a row: from the end that the database has when it is first read.
_AT_END = -1


class Databases:
    """The databases of homes of a host: those that exist are read from their end, later ones from their beginning."""

    def __init__(self, homes: Sequence[Path], rows: Mapping[str, int] | None = None) -> None:
        self.moved = False
        self._homes = homes
        self._rows = dict(rows) if rows is not None else {str(path): _AT_END for path in self._found()}
        self._stamps: dict[str, object] = {}

    def as_json(self) -> dict[str, int]:
        """Return the last row of each database."""
        return dict(self._rows)

    def more(self, *wanted: bytes) -> Iterator[bytes]:
        """Yield the new events that contain any of ``wanted``, as lines of a transcript."""
        self.moved = False
        for path in self._found():
            name, stamp = str(path), _stamp(path)
            if self._stamps.get(name) == stamp:
                continue
            try:
                rows = read_sqlite(path, partial(self._read, name))
            except LabError:
                continue
            # As long as there is more, it is opened again.
            self._stamps[name] = stamp if len(rows) < _MOST else None
            for row, plain, packed, size in rows:
                self._rows[name] = row
                self.moved = True
                event = plain if isinstance(plain, bytes) else _unpacked(packed, size)
                if any(mark in event for mark in wanted):
                    yield event

    def _found(self) -> list[Path]:
        return sorted(path for home in self._homes for path in home.glob(_PATTERN))

    def _read(self, name: str, connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
        (newest,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM transcript_events").fetchone()
        # A database that was compacted has other numbers: what comes after is new.
        if self._rows.get(name) == _AT_END or newest < self._rows.get(name, 0):
            self._rows[name] = newest
            self.moved = True
        columns = "rowid, event_json, event_zstd, event_utf8_bytes"
        return connection.execute(
            f"SELECT {columns} FROM transcript_events WHERE rowid > ? ORDER BY rowid LIMIT ?",  # noqa: S608 - fixed names
            (self._rows.get(name, 0), _MOST),
        ).fetchall()


def _unpacked(packed: object, size: object) -> bytes:
    try:
        return unpack_event(packed if isinstance(packed, bytes) else b"", size)
    except CannotUnpack:
        return b""


def _stamp(path: Path) -> object:
    stamps = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            about = file.stat()
        except OSError:
            continue
        stamps.append((about.st_ino, about.st_size, about.st_mtime_ns))
    return stamps
