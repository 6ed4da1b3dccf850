"""The lock of a LanceDB folder (E-95): at most one process of the lab writes to it."""

from __future__ import annotations

import json
import os
import socket
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.base.errors import InUse, UnusableInput
from lab.base.files import alive, cannot_write, lock

LOCK_NAME = ".lab-memory.lock"
POLL_SECONDS = 0.05


class WriterLock:
    """Held from :meth:`acquire` to :meth:`release`, or until the process ends, however it ends.

    The lock is the operating system's, on a file that names its holder. The file stays: removing it would let two
    processes lock two files of one name. On a file system without locks, the process that the file names decides.
    ``taken_from`` is the holder, now dead, that did not release the lock; None if there was none.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LOCK_NAME
        self.taken_from: str | None = None
        self._handle: int | None = None

    def make_folder(self) -> None:
        """Make the folder if it is missing, private. Raises :class:`UnusableInput` if it is a file."""
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except FileExistsError:
            raise UnusableInput(f"{folder}: exists and is not a folder") from None
        except OSError as error:
            raise cannot_write(folder, error) from error

    def acquire(self, what: str, wait_seconds: float = 0.0) -> None:
        """Take the lock, and write into the file who holds it: ``what`` is the command.

        Raises :class:`InUse` if another process still holds it after ``wait_seconds``, and names it;
        :class:`UnusableInput` if this user cannot write to the folder.
        """
        end = time.monotonic() + wait_seconds
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError:
            raise UnusableInput(f"{self.path.parent}: this user may not write to the folder") from None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        try:
            self._wait(handle, end)
            before = _read(handle)
            self.taken_from = _shown(before) if before else None
            about = {
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
                "what": what,
            }
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(about).encode(), 0)
        except OSError as error:
            os.close(handle)
            raise cannot_write(self.path, error, "; nothing was changed; mend it and run the command again") from error
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def _wait(self, handle: int, end: float) -> None:
        while not _lock(handle, self.path):
            if time.monotonic() >= end:
                raise InUse(
                    f"{self.path.parent}: {_shown(_read(handle))} is writing it; try again when it is done, or wait "
                    "longer with --wait SECONDS"
                )
            time.sleep(POLL_SECONDS)

    def release(self) -> None:
        """Release the lock; do nothing if it is not held."""
        if self._handle is None:
            return
        handle, self._handle = self._handle, None
        try:
            os.ftruncate(handle, 0)
        finally:
            os.close(handle)


def holder(folder: Path) -> str | None:
    """Return which process of the lab holds the lock of a folder now; None if none does. Nothing is changed."""
    try:
        handle = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if _lock(handle, folder / LOCK_NAME) else _shown(_read(handle))
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> bool:
    """Lock an open file until it is closed; return False if another process holds it."""
    locked = lock(handle)
    return _is_free(_read(handle), path) if locked is None else locked


def _is_free(about: dict[str, Any], path: Path) -> bool:
    """Return whether the process that a lock file names is dead, where the file system has no locks.

    A process of another host cannot be looked up, so its lock counts until the file is deleted.
    """
    if not about or about.get("pid") == os.getpid():
        return True
    if about.get("host") != socket.gethostname():
        raise InUse(f"{path.parent}: {_shown(about)} wrote {path.name}; delete that file if it no longer runs")
    return not alive(int(about["pid"]))


def _read(handle: int) -> dict[str, Any]:
    """Return what a lock file says, empty if it says nothing usable: its writer may have been killed while writing."""
    try:
        about = json.loads(os.pread(handle, 4096, 0))
    except ValueError:
        return {}
    return about if isinstance(about, dict) and isinstance(about.get("pid"), int) else {}


def _shown(about: dict[str, Any]) -> str:
    """Return a holder in words."""
    if not about:
        return f"another process, which left no name in {LOCK_NAME},"
    return f"process {about['pid']} on {about.get('host')} ({about.get('what')}, since {about.get('since')})"
