"""A second process that rolls back as soon as this one ends, however it ends (CN-7)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.errors import LabError


@contextmanager
def guarded(config: Path, *, wanted: bool = True) -> Iterator[None]:
    """Run a guard until the end of the block, or until an error that an operator must deal with.

    After any other exception, such as a signal just before the rollback, the guard stays, and recovers when this
    process ends.
    """
    if not wanted:
        yield
        return
    guard = subprocess.Popen(  # noqa: S603 - this interpreter with fixed words
        guard_command(config),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    except (LabError, OSError):
        _end(guard)
        raise
    _end(guard)


def guard_command(config: Path) -> list[str]:
    """Return the command of the guard: it waits for the end of its standard input, then recovers."""
    return [sys.executable, "-m", "lab", "canary", "recover", str(config), "--write", "--when-input-ends"]


def _end(guard: subprocess.Popen[bytes]) -> None:
    guard.kill()
    guard.wait()
    if guard.stdin is not None:
        with suppress(OSError):
            guard.stdin.close()
