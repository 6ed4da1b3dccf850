"""Read an SQLite database in place, while another process may hold it, and leave nothing behind.

* With a write-ahead log and its index beside it (a gateway has it open, or was killed), SQLite reads both and is told
  not to write the index, which a reader otherwise does.
* Without a log it is opened as one that nobody changes, because SQLite would otherwise create an empty log; that it did
  not change is checked afterwards.
* With a log and no index (somebody copied it without), or with a journal that has to be rolled back, a copy is read,
  because SQLite would have to write beside the original.

All that is read is of one moment: it is read in one transaction.
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

from lab.errors import CannotMeasure, UnusableInput

MAGIC = b"SQLite format 3\0"
# How long to wait for a writer, and how often to read again what changed meanwhile.
BUSY_SECONDS = 2.0
ATTEMPTS = 5
WRITTEN_BESIDE = ("-wal", "-journal")
# Opened so, SQLite writes neither the database nor the index of its log.
IN_PLACE = "mode=ro&readonly_shm=1"
T = TypeVar("T")


class _Changed(Exception):
    """The database changed under a reading that relied on nobody writing."""


def is_database(path: Path) -> bool:
    """Tell whether a file is to be read as SQLite: by its first bytes, or by its name where it is empty or damaged.

    Raises :class:`UnusableInput` for a file that cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC or path.suffix == ".sqlite"
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None


def read_sqlite(path: Path, read: Callable[[sqlite3.Connection], T]) -> T:
    """Return what ``read`` makes of a connection, which gives texts as bytes.

    Raises :class:`UnusableInput` for what is no database, or a damaged one, and :class:`CannotMeasure` where another
    process holds it locked.
    """
    _check_header(path)
    for _ in range(ATTEMPTS):
        try:
            with _opened(path) as connection:
                return read(connection)
        except _Changed:
            continue
        except sqlite3.Error as error:
            # The index could be read a moment ago: whoever keeps it went or came.
            if not getattr(error, "sqlite_errorname", "").startswith("SQLITE_READONLY"):
                raise _refusal(path, error) from None
        except UnicodeDecodeError:
            # What SQLite says of a damaged file may quote its bytes.
            raise UnusableInput(f"{path}: is damaged; restore it from a backup") from None
        except OSError as error:
            raise CannotMeasure(f"{path}: cannot be copied to be read: {error.strerror}") from None
    raise CannotMeasure(f"{path}: changed each time while it was read; run the command again")


def _check_header(path: Path) -> None:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(100)
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None
    if not header.startswith(MAGIC) or len(header) < 100:
        what = "is empty, so it is no SQLite database" if size == 0 else "is no SQLite database"
        raise UnusableInput(f"{path}: {what}; give the agent's openclaw-agent.sqlite")
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    # A log may hold the rest.
    if size < expected and not _size(path, "-wal"):
        raise UnusableInput(f"{path}: is cut off: {size} of {expected} bytes; restore it from a backup")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _size(path: Path, end: str) -> int:
    """Return the size of a file that SQLite keeps beside the database; 0 where there is none."""
    try:
        return _beside(path, end).stat().st_size
    except OSError:
        return 0


def _state(path: Path) -> tuple[Any, ...]:
    """What changes when somebody writes."""
    found = [_beside(path, end) for end in ("", *WRITTEN_BESIDE)]
    return tuple((one.stat().st_mtime_ns, one.stat().st_size) if one.exists() else None for one in found)


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
    """Tell whether SQLite can read in place; a lock is an error, and what would need a write is not possible."""
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
        # Texts are decoded one by one: a spoilt one must not end the reading.
        connection.text_factory = bytes
        connection.execute("BEGIN")
        yield connection


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """Copy the database with its log or journal while neither changes."""
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
    """What a fault of SQLite means for whoever gave the path."""
    name = getattr(error, "sqlite_errorname", "")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return CannotMeasure(
            f"{path}: another process holds it locked; try again when that is done, or stop the gateway"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ")):
        return UnusableInput(f"{path}: is damaged or cut off ({error}); restore it from a backup")
    return CannotMeasure(f"{path}: cannot be read as SQLite: {error}; a copy of its folder may be readable")
