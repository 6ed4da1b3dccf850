"""A second process that rolls back as soon as this one ends, however it ends (CN-7)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.rollout.recover import guard_command


@contextmanager
def guarded(config: Path, *, wanted: bool = True) -> Iterator[None]:
    """Run a guard until the end of the block; what is left to recover then is for people."""
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
    finally:
        # It finds nothing to recover; what is stuck, it must leave to the operator as well.
        guard.kill()
        guard.wait()
        if guard.stdin is not None:
            with suppress(OSError):
                guard.stdin.close()
