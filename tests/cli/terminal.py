"""A pseudo terminal of a given width, for tests of what a terminal shows."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
from pathlib import Path


def all_written(keys: int) -> bytes:
    """Return what is written to a terminal until its last user has closed it."""
    written = b""
    while True:
        try:
            read = os.read(keys, 1 << 16)
        except OSError:
            return written
        if not read:
            return written
        written += read


def on_a_terminal(code: str, cwd: Path, columns: int = 80, **environment: str) -> str:
    """Run Python code whose standard streams are a terminal of this width; return all that it writes."""
    keys, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, columns))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    settings = {**clean, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "xterm-256color", **environment}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=inside, stdout=inside, stderr=inside, cwd=cwd, env=settings
    )
    os.close(inside)
    written = all_written(keys)
    assert process.wait(30) == 0, written
    os.close(keys)
    return written.decode()
