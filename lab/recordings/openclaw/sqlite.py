"""Read an SQLite database that another process may be using, without writing any file beside it.

* With a write-ahead log and its index (a gateway has the database open, or was killed), SQLite reads both. The option
  ``readonly_shm`` keeps it from writing the index, as readers normally do.
* Without a log, the database is opened as immutable, because SQLite would otherwise create an empty log. Afterwards the
  reader checks that the database did not change.
* With a log but no index (an incomplete copy), or with a journal to roll back, a temporary copy is read, because SQLite
  would have to write beside the original.

Everything is read in one transaction, which gives a consistent snapshot.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from lab.base.errors import CannotMeasure, UnusableInput

MAGIC = b"SQLite format 3\0"
# How long to wait for a writer, and how often to retry after the database changed during a read.
BUSY_SECONDS = 2.0
ATTEMPTS = 5
WRITTEN_BESIDE = ("-wal", "-journal")
# With these options, SQLite writes neither the database nor the index of its log.
IN_PLACE = "mode=ro&readonly_shm=1"
T = TypeVar("T")


class _Changed(Exception):
    """The database changed during a read that requires it to be unchanged."""


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
    """Return the error to raise for an error of SQLite."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CannotMeasure(
            f"{path}: is locked by another process; try again when it has finished, or stop the gateway"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ")):
        return UnusableInput(f"{path}: is damaged or truncated ({error}); restore it from a backup")
    return CannotMeasure(f"{path}: cannot be read as SQLite: {error}; try a copy of its folder")
