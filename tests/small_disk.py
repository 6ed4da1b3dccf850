"""A small disk of its own, for tests of what happens when it is full or read-only."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Disk(NamedTuple):
    """A small disk of its own."""

    path: Path

    def fill(self, pages: int = 0) -> None:
        """Leave room for so many pages of 4096 bytes."""
        with (self.path / "filler").open("wb", buffering=0) as filler:
            try:
                while filler.write(b"x" * 4096):
                    pass
            except OSError:
                filler.truncate(max(0, filler.tell() - pages * 4096))

    def free(self) -> None:
        """Make room again."""
        (self.path / "filler").unlink()

    def close(self) -> None:
        """Make it read-only."""
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)

    def open(self) -> None:
        """Make it writable again."""
        subprocess.run(["mount", "-o", "remount,rw", self.path], check=True)


@contextlib.contextmanager
def mounted(path: Path, size: str) -> Iterator[Disk]:
    """Mount an empty disk; the test is skipped where that is not permitted."""
    path.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    try:
        done = subprocess.run(words, capture_output=True, check=False)
    except OSError:
        pytest.skip("this system has no command mount")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", path], check=True)
