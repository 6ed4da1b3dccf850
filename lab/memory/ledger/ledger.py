"""Open, read and change a ledger: the SQLite file of observations that the sidecar governs (LD-1, LD-2, LD-11)."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, CannotWrite, InUse, UnusableInput
from lab.base.files import cannot_write, require_finite
from lab.base.sqlite import is_damaged_index, is_empty, number, tables, transaction
from lab.memory.ledger import schema as ledger_schema

# How long to wait for another process's write.
BUSY_SECONDS = 5.0
PAGE = 2000
GO_ON = ", and the same command goes on"
_SURROGATE = re.compile("[\ud800-\udfff]")
_READ = "SELECT id, ts, kind, summary, summary_en, lang, tool_name, detail_json FROM observations"


class Observation(NamedTuple):
    """One row of a ledger, as stored. ``detail_json`` is text that may be no JSON object; see :meth:`detail`."""

    id: int
    ts: str
    kind: str | None
    summary: str | None
    summary_en: str | None
    lang: str | None
    tool_name: str | None
    detail_json: str | bytes | None

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Observation:
        """Return a row as read. Programs may have stored anything where a text belongs; only the detail keeps bytes."""
        identity, ts, *texts, detail = row
        kept = detail if isinstance(detail, bytes) else _text(detail)
        return cls._make((identity, _text(ts) or "", *map(_text, texts), kept))

    @property
    def detail(self) -> dict[str, Any]:
        """The detail as an object: empty if it is missing, or no JSON object."""
        return parse_detail(self.detail_json) or {}


def _text(value: Any) -> str | None:
    """Return a value of any type of SQLite as text; None for NULL."""
    if isinstance(value, bytes):
        return str(value, "utf-8", "replace")
    return None if value is None else str(value)


class Change(NamedTuple):
    """A new detail for an observation, and the text it was made from, which must still be there."""

    id: int
    before: str | bytes | None
    detail: Mapping[str, Any]


@contextmanager
def open_ledger(path: Path, *, write: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a ledger; with ``new``, it may be missing or empty. Without ``write`` nothing is changed.

    A connection to write is in WAL mode and commits by :func:`transaction` alone. Raises :class:`UnusableInput` for a
    file that is no ledger or is damaged, :class:`InUse` while another process writes it, :class:`CannotWrite` if the
    disk is full.
    """
    require_finite(path)
    if path.is_dir():
        raise UnusableInput(f"{path}: is a folder; give the SQLite file of a ledger")
    if not path.exists() and not new:
        raise UnusableInput(f"{path}: no such file; make a ledger with lab memory ledger ingest")
    if new:
        _create_private(path)
    with _translated(path):
        connection = sqlite3.connect(_address(path, write or new), uri=True, timeout=BUSY_SECONDS, isolation_level=None)
        # Another program may have stored a text that is not UTF-8.
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        try:
            # A file that is no ledger is refused before anything is changed in it.
            if not new or not is_empty(connection):
                ledger_schema.check(connection, path)
            if write or new:
                if not new or tables(connection):
                    ledger_schema.check(connection, path)
                # After the check, because this changes the file, which may be the database of another program.
                connection.execute("PRAGMA journal_mode = WAL")
                # A commit that a power failure takes back takes back its place in the log as well, so it is redone.
                connection.execute("PRAGMA synchronous = NORMAL")
                with transaction(connection):
                    ledger_schema.create(connection)
            yield connection
        finally:
            connection.close()


def _create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless there is a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        raise cannot_write(path, error) from error


def _address(path: Path, write: bool) -> str:
    """Return the address of a file for SQLite: read-only, and immutable where SQLite could not make its lock files."""
    address = path.resolve().as_uri()
    if write:
        return f"{address}?mode=rwc"
    locked = not os.access(path.resolve().parent, os.W_OK) and not Path(f"{path}-wal").exists()
    return f"{address}?mode=ro{'&immutable=1' if locked else ''}"


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Raise the errors of SQLite as the lab's own, with the file's name and what to do."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _translate(path, error) from error


def _translate(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return InUse(f"{path}: another process is writing the ledger; wait for it to end and run the command again")
    if code == sqlite3.SQLITE_NOTADB:
        return UnusableInput(f"{path}: is not an SQLite file; give the SQLite file of a ledger")
    if is_damaged_index(error):
        return UnusableInput(
            f"{path}: the search tables are damaged; remove them with sqlite3 {quote(str(path))} "
            f"'DROP TABLE {ledger_schema.FTS}; DROP TABLE {ledger_schema.TRIGRAM}' and run "
            "lab memory ledger ingest --write, which makes them again"
        )
    # The message of SQLite quotes a damaged schema, of which a byte may be no UTF-8.
    if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
        return UnusableInput(
            f"{path}: the database is damaged; restore a copy, or save what is readable with "
            f"sqlite3 {quote(str(path))} .recover | sqlite3 recovered.sqlite"
        )
    if code == sqlite3.SQLITE_FULL:
        return CannotWrite(f"cannot write {path}: the disk is full; the ledger is as before this batch{GO_ON}")
    if code == sqlite3.SQLITE_READONLY:
        return CannotWrite(f"cannot write {path}: the file or its folder is read-only")
    if code == sqlite3.SQLITE_CANTOPEN:
        return UnusableInput(f"{path}: cannot be opened; check that the file and its folder can be read and written")
    if code == sqlite3.SQLITE_IOERR:
        return cannot_write(path, OSError(error.sqlite_errorname), f"; the ledger is as before this batch{GO_ON}")
    return CannotMeasure(f"{path}: SQLite says: {error}")


def parse_detail(text: str | bytes | None) -> dict[str, Any] | None:
    """Return the object in a detail; an empty one if the detail is missing, None if it is no JSON object."""
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def count(connection: sqlite3.Connection) -> int:
    """Return the number of observations."""
    return number(connection, "SELECT count(*) FROM observations")


def observations(
    connection: sqlite3.Connection, *, after: int = 0, where: str = "", values: Iterable[Any] = ()
) -> Iterator[Observation]:
    """Yield the observations with an id above ``after``, by id, in pages, so that rows may be changed meanwhile.

    ``where`` is a condition in SQL with ``?`` for ``values``, as in ``"tool_name = ?"``.
    """
    condition = f"id > ? AND ({where})" if where else "id > ?"
    fixed = tuple(values)
    while rows := connection.execute(f"{_READ} WHERE {condition} ORDER BY id LIMIT {PAGE}", (after, *fixed)).fetchall():
        yield from map(Observation.of, rows)
        after = rows[-1][0]


def newest(connection: sqlite3.Connection, limit: int, *, tool_name: str | None = None) -> list[Observation]:
    """Return the ``limit`` observations with the highest ids, newest first; with ``tool_name``, of that tool alone."""
    condition, values = ("WHERE tool_name = ?", (tool_name,)) if tool_name is not None else ("", ())
    rows = connection.execute(f"{_READ} {condition} ORDER BY id DESC LIMIT ?", (*values, limit))
    return list(map(Observation.of, rows))


def get(connection: sqlite3.Connection, ids: Iterable[int]) -> list[Observation]:
    """Return the observations with these ids, by id; those that the ledger does not have are left out."""
    wanted = json.dumps(sorted(set(ids)))
    rows = connection.execute(f"{_READ} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (wanted,))  # noqa: S608 - a constant
    return list(map(Observation.of, rows))


def change_details(connection: sqlite3.Connection, changes: Iterable[Change]) -> list[int]:
    """Write new details in one transaction; return the ids of those written (LD-2).

    A row whose detail is no longer ``before`` was changed by somebody else meanwhile and is left alone. The search
    tables are left alone too: they hold the detail as it was ingested.
    """
    written: list[int] = []
    with transaction(connection):
        for change in changes:
            text = _dumped(change.detail)
            done = connection.execute(
                "UPDATE observations SET detail_json = ? WHERE id = ? AND detail_json IS ?",
                (text, change.id, change.before),
            )
            if done.rowcount:
                written.append(change.id)
    return written


def _dumped(detail: Mapping[str, Any]) -> str:
    """Return a detail as JSON. SQLite cannot hold a lone surrogate, so a detail with one keeps all its escapes."""
    text = json.dumps(detail, ensure_ascii=False)
    return json.dumps(detail) if _SURROGATE.search(text) else text
