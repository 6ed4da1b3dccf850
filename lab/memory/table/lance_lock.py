"""Find out who uses a LanceDB folder: a running OpenClaw gateway (E-96), or another process of the lab.

A lock allows at most one process of the lab to write to it (E-95).
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.config_env import config_of, state_of
from lab.base.config_resolve import resolve_config
from lab.base.errors import InUse, UnusableInput
from lab.base.files import alive, cannot_write, lock
from lab.base.regex import regex

PROC = Path("/proc")
_RUNTIMES = ("node", "bun", "openclaw")
_GATEWAY = regex(rb"(^|/)openclaw(\.mjs|-gateway)?(\0|$)|openclaw-gateway")
LOCK_NAME = ".lab-memory.lock"
POLL_SECONDS = 0.05


class _Process(NamedTuple):
    """A process that can be inspected: its id, its name and its command line."""

    id: int
    name: str
    command: bytes

    @property
    def environ(self) -> dict[str, str]:
        """The environment that the process was started with; empty if it cannot be read."""
        with suppress(OSError):
            pairs = os.fsdecode((PROC / str(self.id) / "environ").read_bytes()).split("\0")
            return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
        return {}

    @property
    def is_gateway(self) -> bool:
        """Whether this is a gateway: OpenClaw sets the title ``openclaw-gateway``, or is started with ``gateway``."""
        words = self.command.split(b"\0")
        titled = self.command.startswith(b"openclaw-gateway") or self.name.startswith("openclaw-gatewa")
        return titled or (_GATEWAY.search(self.command) is not None and b"gateway" in words)


def gateway_using(folder: Path) -> str | None:
    """Return which running gateway uses a folder and how that is known; None if none is detected."""
    folder = folder.resolve()
    return next(_signs(folder), None)


def _signs(folder: Path) -> Iterator[str]:
    for path, about in _lock_files():
        config = Path(str(about.get("configPath") or "")).expanduser()
        state = str(about.get("stateDir") or "") or str(config.parent)
        if alive(about["pid"]) and _uses(config, Path(state).expanduser(), folder):
            yield f"process {about['pid']}, by the lock file {path}"
    for process in _processes():
        environ = process.environ if process.is_gateway else {}
        if process.is_gateway and _uses(config_of(None, environ), state_of(environ), folder):
            yield f"process {process.id} ({process.name}), a running gateway"
        if process.name.startswith(_RUNTIMES) and (name := _open_file(process, folder)):
            yield f"process {process.id} ({process.name}), which has {name} open"


def _lock_files() -> Iterator[tuple[Path, dict[str, Any]]]:
    for base in dict.fromkeys((Path(tempfile.gettempdir()), Path("/tmp"))):  # noqa: S108 - a gateway's folder, only read
        with suppress(OSError):
            for path in sorted(base.glob("openclaw*/gateway.*.lock")):
                with suppress(OSError, ValueError):
                    about = json.loads(path.read_bytes())
                    if isinstance(about, dict) and type(about.get("pid")) is int and about["pid"] > 0:
                        yield path, about


def _processes() -> Iterator[_Process]:
    """Yield the other processes of this machine, as far as this user may inspect them."""
    with suppress(OSError):
        for entry in sorted(PROC.iterdir()):
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    name = (entry / "comm").read_text("utf-8", "replace").strip()
                    yield _Process(int(entry.name), name, (entry / "cmdline").read_bytes())


def _uses(config: Path, state: Path, folder: Path) -> bool:
    """Return whether a gateway uses a folder: it lies in its state folder, or the configuration names it."""
    if state != Path() and state.is_absolute() and folder.is_relative_to(state.resolve()):
        return True
    try:
        # A variable that is not set here hides no other store that the file names.
        value = resolve_config(config, state=state if state.is_absolute() else None).value
    except (OSError, UnusableInput):
        return False
    return any((config.parent / Path(name).expanduser()).resolve() == folder for name in _paths_in(value))


def _paths_in(value: Any) -> Iterator[str]:
    """Yield every text under a key ``dbPath``, however deep."""
    if isinstance(value, dict):
        for key, part in value.items():
            if key == "dbPath" and isinstance(part, str) and part and "://" not in part:
                yield part
            yield from _paths_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _paths_in(part)


def _open_file(process: _Process, folder: Path) -> str | None:
    """Return the name of a file of the folder that a process has open; None if there is none."""
    with suppress(OSError):
        for handle in (PROC / str(process.id) / "fd").iterdir():
            with suppress(OSError, ValueError):
                return Path(os.readlink(handle)).relative_to(folder).as_posix()
    return None


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
    if not about:
        return f"another process, which left no name in {LOCK_NAME},"
    return f"process {about['pid']} on {about.get('host')} ({about.get('what')}, since {about.get('since')})"
