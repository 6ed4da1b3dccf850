"""What every user of SQLite shares: transactions, full-text indexes, an authorizer, and reading without writing.

:func:`read_sqlite` reads a database that another process may be using, and writes no file beside it:

* With a write-ahead log and its index (a gateway has the database open, or was killed), SQLite reads both. The option
  ``readonly_shm`` keeps it from writing the index, as readers normally do.
* Without a log, the database is opened as immutable, because SQLite would otherwise create an empty log. Afterwards the
  reader checks that the database did not change.
* With a log but no index (an incomplete copy), or with a journal to roll back, a temporary copy is read, because SQLite
  would have to write beside the original.

Everything is read in one transaction, which gives a consistent snapshot.

FTS5 keeps no text of its own here: its indexes have the rows of a table as their content.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.regex import regex

MAGIC = b"SQLite format 3\0"
# How long to wait for a writer, and how often to retry after the database changed during a read.
BUSY_SECONDS = 2.0
ATTEMPTS = 5
WRITTEN_BESIDE = ("-wal", "-journal")
# With these options, SQLite writes neither the database nor the index of its log.
IN_PLACE = "mode=ro&readonly_shm=1"
T = TypeVar("T")
# A number in a record of FTS5: 7 bits a byte.
_NUMBER = regex(rb"[\x80-\xff]*[\x00-\x7f]")
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


class _Changed(Exception):
    """The database changed during a read that requires it to be unchanged."""


@contextmanager
def transaction(connection: sqlite3.Connection, mode: str = "IMMEDIATE") -> Iterator[None]:
    """Run the block in one transaction, which holds the write lock from its start: all of it is written, or nothing."""
    connection.execute(f"BEGIN {mode}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite has already rolled back after some errors, such as a full disk.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def number(connection: sqlite3.Connection, sql: str) -> int:
    """Return the single number that a statement selects."""
    return int(connection.execute(sql).fetchone()[0])


def is_empty(connection: sqlite3.Connection) -> bool:
    """Return whether a database has no tables, views or anything else."""
    return not number(connection, "SELECT count(*) FROM sqlite_master")


def tables(connection: sqlite3.Connection) -> set[str]:
    """Return the names of the tables, without those of SQLite itself."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {name for (name,) in rows}


def create_missing(connection: sqlite3.Connection, statements: Iterable[str], content: str) -> None:
    """Run statements that create what is missing, and index the rows of the table ``content`` in new FTS5 tables.

    Unlike ``executescript``, this does not commit first.
    """
    before = tables(connection)
    for statement in statements:
        connection.execute(statement)
        made = re.match(r"CREATE VIRTUAL TABLE IF NOT EXISTS (\w+)", statement)
        if made and content in before and made[1] not in before:
            connection.execute(f"INSERT INTO {made[1]}({made[1]}) VALUES ('rebuild')")  # noqa: S608 - a name of a statement


def full_text_index(table: str, content: str, columns: Sequence[str], triggers: str, options: str = "") -> list[str]:
    """Return the statements that make an FTS5 index of a table, by its ``id``, and triggers that keep it up to date.

    A row is indexed again only if one of its ``columns`` changes, whichever program writes it. ``triggers`` is how the
    names of the triggers begin.
    """
    names, new, old = (", ".join(f"{row}{name}" for name in columns) for row in ("", "new.", "old."))
    insert = f"INSERT INTO {table}(rowid, {names}) VALUES (new.id, {new});"  # noqa: S608 - names of the caller's tables
    delete = f"INSERT INTO {table}({table}, rowid, {names}) VALUES ('delete', old.id, {old});"  # noqa: S608 - as above
    settings = f"{names}, content='{content}', content_rowid='id'{options}"
    made = f"CREATE TRIGGER IF NOT EXISTS {triggers}"
    return [
        f"CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5({settings})",
        f"{made}_ai AFTER INSERT ON {content} BEGIN {insert} END",
        f"{made}_ad AFTER DELETE ON {content} BEGIN {delete} END",
        f"{made}_au AFTER UPDATE OF {names} ON {content} BEGIN {delete} {insert} END",
    ]


def first_valid(full_text: Callable[[str], list[T]], queries: Iterable[str]) -> tuple[list[T], str]:
    """Return what the first query finds that FTS5 can parse, and that query; nothing and "" if it can parse none."""
    for query in filter(None, queries):
        try:
            return full_text(query), query
        except sqlite3.OperationalError as error:
            # FTS5 reports its syntax errors with this code; a locked, interrupted or damaged database has another one.
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
                raise
    return [], ""


def require_segments(connection: sqlite3.Connection, table: str) -> None:
    """Raise SQLite's error for a damaged table if an FTS5 table has words, and no list of segments that hold them.

    FTS5 reads a list of zeros as that of an empty table, and finds nothing without an error.
    """
    found = connection.execute(f"SELECT id, block FROM {table}_data WHERE id IN (1, 10)")  # noqa: S608 - a name of the caller's
    blocks = {number: block for number, block in found if isinstance(block, bytes)}
    # Record 1 has the number of rows, then of words in each column. Record 10 has the numbers of levels and of segments
    # after 4 bytes.
    words, segments = _NUMBER.sub(b"", blocks.get(1, b""), count=1), blocks.get(10, b"")[4:6]
    if any(words) and not any(segments):
        error = sqlite3.DatabaseError(f"{table} has no segments")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT_VTAB
        raise error


def is_damaged_index(error: Exception) -> bool:
    """Return whether SQLite says that a full-text index is damaged.

    No statement of the lab violates a constraint; a damaged index has rows that it should not have.
    """
    code = getattr(error, "sqlite_errorcode", 0)
    return code == sqlite3.SQLITE_CORRUPT_VTAB or code & 0xFF == sqlite3.SQLITE_CONSTRAINT


def allow_changes_of(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Let a connection read everything, and change nothing but what is in ``names``; ALTER and ATTACH are denied, too.

    A statement that is denied raises ``sqlite3.DatabaseError`` with the code ``SQLITE_AUTH``.
    """

    def authorize(action: int, name: str | None, value: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_CREATE_INDEX:
            # SQLite names the index of a key itself, so the table counts.
            name = value
        reads = action in _READS or (action == sqlite3.SQLITE_PRAGMA and value is None)
        return sqlite3.SQLITE_OK if reads or (action in _CHANGES and name in names) else sqlite3.SQLITE_DENY

    connection.set_authorizer(authorize)


def is_database(path: Path) -> bool:
    """Return whether to read a file as SQLite: by its first bytes, or by its suffix in case it is empty or damaged.

    Raises :class:`UnusableInput` for an unreadable file.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC or path.suffix == ".sqlite"
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None


def read_sqlite(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """Return the result of ``read``, which is given a connection whose texts are bytes and may be called several times.

    Raises :class:`UnusableInput` for a file that is not a database or is damaged, and :class:`CannotMeasure` if another
    process holds a lock.
    """
    _check_header(path)
    for _ in range(ATTEMPTS):
        try:
            with _opened(path) as connection:
                return read(connection)
        except _Changed:
            continue
        except sqlite3.Error as error:
            # Retry: the index was readable just before, so another process opened or closed the database meanwhile.
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_READONLY"):
                raise _refusal(path, error) from None
        except UnicodeDecodeError:
            # SQLite's message about a damaged file may quote its bytes.
            raise UnusableInput(f"{path}: is damaged; restore it from a backup") from None
        except OSError as error:
            raise CannotMeasure(f"{path}: cannot be copied for reading: {error.strerror}") from None
    raise CannotMeasure(f"{path}: changed during each of {ATTEMPTS} reads; run the command again")


def _check_header(path: Path) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
    if not header.startswith(MAGIC) or len(header) < 100:
        what = "is empty, so it is not an SQLite database" if size == 0 else "is not an SQLite database"
        raise UnusableInput(f"{path}: {what}; give the agent's openclaw-agent.sqlite")
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    # The log may contain the missing pages.
    if size < expected and not _size(path, "-wal"):
        raise UnusableInput(f"{path}: is truncated: {size} of {expected} bytes; restore it from a backup")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _size(path: Path, end: str) -> int:
    """Return the size in bytes of a file that SQLite keeps beside the database, or 0 if there is none."""
    try:
        return _beside(path, end).stat().st_size
    except OSError:
        return 0


def _state(path: Path) -> tuple[Any, ...]:
    """Return the times and sizes of the database files, which change with every write."""
    paths = [_beside(path, end) for end in ("", *WRITTEN_BESIDE)]
    return tuple((file.stat().st_mtime_ns, file.stat().st_size) if file.exists() else None for file in paths)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with path.open("rb") as file:
        logs = file.read(20)[18:20] == b"\2\2"
    has_log, has_index = _beside(path, "-wal").exists(), _beside(path, "-shm").exists()
    if logs and not has_log:
        before = _state(path)
        with _connected(path, "mode=ro&immutable=1") as connection:
            try:
                yield connection
            finally:
                if _state(path) != before:
                    raise _Changed
    elif (not has_log or has_index) and _is_readable(path):
        with _connected(path, IN_PLACE) as connection:
            yield connection
    else:
        with _copied(path) as copy, _connected(copy, "mode=rw") as connection:
            yield connection


def _is_readable(path: Path) -> bool:
    """Return whether SQLite can read the database in place, without writing. A locked database raises."""
    try:
        with _connected(path, IN_PLACE) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN")):
            return False
        raise
    return True


@contextmanager
def _connected(path: Path, how: str) -> Iterator[sqlite3.Connection]:
    uri = f"file:{quote(str(path.absolute()))}?{how}"
    with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        # Texts are decoded later, one by one, because an invalid text must not abort the read.
        connection.text_factory = bytes
        connection.execute("BEGIN")
        yield connection


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Copy the database with its log or journal; raise :class:`_Changed` if either changes meanwhile."""
    with tempfile.TemporaryDirectory(prefix="recall-lab-") as folder:
        before = _state(path)
        copy = Path(folder) / path.name
        for end in ("", *WRITTEN_BESIDE):
            if _beside(path, end).exists():
                shutil.copyfile(_beside(path, end), _beside(copy, end))
        if _state(path) != before:
            raise _Changed
        yield copy


def _refusal(path: Path, error: sqlite3.Error) -> UnusableInput | CannotMeasure:
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CannotMeasure(
            f"{path}: is locked by another process; try again when it has finished, or stop the gateway"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ")):
        return UnusableInput(f"{path}: is damaged or truncated ({error}); restore it from a backup")
    return CannotMeasure(f"{path}: cannot be read as SQLite: {error}; try a copy of its folder")
