"""Copy files of a running host: lines up to the last whole one, databases in one transaction (IN-4)."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sqlite3
from io import BufferedWriter
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import CannotMeasure
from lab.base.file_digests import FileDigest
from lab.base.files import cannot_write, sha256_file
from lab.base.sqlite import read_sqlite

_CHUNK = 1 << 20
ATTEMPTS = 3
# What can follow the last line break and still be a whole line.
_MOST_TAIL = 1 << 26


class Copy(NamedTuple):
    """A copied file, and how many bytes of a line that was being written were left out."""

    file: FileDigest
    cut: int = 0


def copy_lines(source: Path, target: Path, name: str) -> Copy:
    """Copy a file of JSON lines up to its last whole line, as far as it was there when the copy began.

    A last line without a line break counts as whole if it is JSON. Raises :class:`FileNotFoundError` if the file is
    gone.
    """
    with source.open("rb") as reading, _created(target) as writing:
        left = os.fstat(reading.fileno()).st_size
        hashed, whole, size, written = hashlib.sha256(), hashlib.sha256(), 0, 0
        while left and (chunk := reading.read(min(_CHUNK, left))):
            left -= len(chunk)
            end = chunk.rfind(b"\n") + 1
            if end:
                hashed.update(chunk[:end])
                whole, size = hashed.copy(), written + end
            hashed.update(chunk[end:])
            written += len(chunk)
            writing.write(chunk)
        writing.flush()
        # Not of the source, which may have been rotated or cut meanwhile.
        if written > size and _is_whole(target, size, written):
            whole, size = hashed, written
        writing.truncate(size)
        os.fsync(writing.fileno())
    return Copy(FileDigest(name, size, whole.hexdigest()), written - size)


def copy_whole(source: Path, target: Path, name: str) -> Copy:
    """Copy a file as it is. Raises :class:`CannotMeasure` if it changes during every attempt."""
    for _ in range(ATTEMPTS):
        before = source.stat()
        hashed, size = hashlib.sha256(), 0
        with source.open("rb") as reading, _created(target) as writing:
            while chunk := reading.read(_CHUNK):
                hashed.update(chunk)
                size += len(chunk)
                writing.write(chunk)
            writing.flush()
            os.fsync(writing.fileno())
            # By the open file: another one may have taken its name meanwhile.
            after = os.fstat(reading.fileno())
        if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and size == after.st_size:
            return Copy(FileDigest(name, size, hashed.hexdigest()))
        target.unlink()
    raise CannotMeasure(f"{source}: changed during each of {ATTEMPTS} copies; try again")


def copy_database(source: Path, target: Path, name: str) -> Copy:
    """Copy an SQLite database as one transaction sees it, with what its log holds; another process may write it.

    Raises what :func:`lab.base.sqlite.read_sqlite` raises.
    """
    _created(target).close()

    def copied(opened: sqlite3.Connection) -> None:
        writing = sqlite3.connect(target)
        try:
            opened.backup(writing)
        except sqlite3.Error as error:
            if error.sqlite_errorname in ("SQLITE_FULL", "SQLITE_IOERR_WRITE"):
                raise cannot_write(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))) from error
            raise
        finally:
            writing.close()

    read_sqlite(source, copied)
    with target.open("rb") as file:
        os.fsync(file.fileno())
    return Copy(FileDigest(name, target.stat().st_size, sha256_file(target)))


def _created(target: Path) -> BufferedWriter:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    writing = target.open("xb")
    os.fchmod(writing.fileno(), 0o600)
    return writing


def _is_whole(file: Path, start: int, end: int) -> bool:
    """Return whether the bytes from the last line break on are a JSON object."""
    if end - start > _MOST_TAIL:
        return False
    with file.open("rb") as reading:
        reading.seek(start)
        tail = reading.read(end - start)
    try:
        return isinstance(json.loads(tail), dict)
    except (ValueError, RecursionError):
        return not tail.strip()
