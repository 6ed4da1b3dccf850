"""What was said: recordings, their readers and their checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.recordings.readers import Library


def read(path: str | Path, format: str = "lab", *, memories: str | None = None) -> Library:  # noqa: A002 - the name of the option
    """Read a recording, a folder of them or a shipped set (``shipped:operators``).

    ``format`` is one of ``lab recordings list``. ``memories`` chooses what counts as a memory, where a format offers a
    choice. Raises :class:`lab.errors.UnusableInput` with file, line and remedy for what cannot be read.
    """
    from lab.recordings.readers import read_library
    from lab.set_registry import recordings_at

    return read_library(recordings_at(str(path)), format, memories=memories)
