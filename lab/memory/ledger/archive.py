"""Rotate a log that was ingested, and find the line that an observation came from, wherever its log is now (LD-10)."""

from __future__ import annotations

import glob
import os
import shutil
import sqlite3
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import atomic_file, cannot_write, require_finite, sha256_file
from lab.base.sqlite import transaction
from lab.memory.ledger import ledger
from lab.memory.ledger import origins as ledger_origins
from lab.memory.ledger.ingest import Source, first_line, source_of, sources

RECEIPT = "recall-lab.ledger.archive.v1"
FOLDER = "archive"


class Pointer(NamedTuple):
    """Where an observation comes from: the log, the number of its line, its first byte and its length."""

    log: Path
    line: int
    position: int
    length: int

    def read(self) -> str:
        """Return the line."""
        with self.log.open("rb") as file:
            file.seek(self.position)
            return file.read(self.length).decode("utf-8", "replace").rstrip("\r\n")


def archived_logs(log: Path, folder: Path | None = None) -> list[Path]:
    """Return the logs that were rotated from a log into a folder (default: ``archive`` beside it)."""
    return sorted((folder or log.parent / FOLDER).glob(f"{glob.escape(log.stem)}-*{glob.escape(log.suffix)}"))


def archive(path: Path, log: Path, *, folder: Path | None = None, write: bool = False) -> dict[str, Any]:
    """Move a log whose every line is in the ledger to ``folder`` (default: ``archive`` beside it); return a receipt.

    The new name ends in the digest of the log. The ledger learns the new place first, so that its pointers hold
    whenever the process is killed; the same command finishes the move. Without ``write`` nothing is changed. Raises
    :class:`UnusableInput` if lines are not ingested yet, or another file has the new name.
    """
    require_finite(log)
    # Of a link, the file is moved.
    log = log.resolve()
    with ledger.open_ledger(path, write=write) as connection:
        if not log.exists():
            return _moved_before(connection, log)
        with log.open("rb") as file:
            source = source_of(connection, file, log)
        left = log.stat().st_size - source.position
        if not source.digest or left:
            raise UnusableInput(
                f"{log}: {left} bytes are not ingested; run: lab memory ledger ingest {quote(str(path))} "
                f"{quote(str(log))} --write"
            )
        target = (folder or log.parent / FOLDER).resolve() / f"{log.stem}-{source.digest[:12]}{log.suffix}"
        if target.exists() and sha256_file(target) != source.digest:
            raise UnusableInput(f"{target}: exists and is another file; choose a new folder with --to")
        if write:
            with transaction(connection):
                connection.execute(
                    "UPDATE lab_sources SET path = ?, archived = ? WHERE id = ?",
                    (source.path, str(target), source.id),
                )
            _move(log, target)
            # Another program may have appended a line meanwhile; it is in the archive, and not in the ledger.
            left = target.stat().st_size - source.position
        return _receipt(source._replace(archived=str(target)), left, write)


def _receipt(source: Source, left: int, write: bool) -> dict[str, Any]:
    return {
        "kind": RECEIPT,
        "written": write,
        "archived": source.archived,
        "lines": source.lines,
        "bytes": source.position,
        "sha256": source.digest,
        "bytes_to_ingest": left,
    }


def _moved_before(connection: sqlite3.Connection, log: Path) -> dict[str, Any]:
    """Return the receipt of a log that an earlier run moved."""
    here = str(log)
    for source in reversed(list(sources(connection))):
        if source.path == here and source.archived and Path(source.archived).exists():
            return _receipt(source, Path(source.archived).stat().st_size - source.position, True)
    raise UnusableInput(f"{log}: no such file")


def _move(log: Path, target: Path) -> None:
    """Move a file; across file systems, copy it and remove it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if log.stat().st_dev == target.parent.stat().st_dev:
            os.replace(log, target)
            return
        with atomic_file(target, private=True) as part:
            shutil.copyfile(log, part)
        log.unlink()
    except OSError as error:
        raise cannot_write(target, error, f"; {log} is kept") from error


def pointer(connection: sqlite3.Connection, observation_id: int) -> Pointer | None:
    """Return where an observation comes from; None if the ledger does not know, or its log is gone or another one."""
    known = {source.id: source for source in sources(connection)}
    origin = ledger_origins.find(connection, observation_id) if known else None
    if origin is None:
        return None
    source = known[origin.source_id]
    for name in (source.archived, source.path):
        if name and Path(name).is_file():
            with Path(name).open("rb") as file:
                if first_line(file) == source.head:
                    return Pointer(Path(name), *origin[1:])
    return None
