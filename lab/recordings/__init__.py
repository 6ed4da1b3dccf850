"""Recorded conversations: the data model, one reader per format, validation and conversion."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.recordings.readers import Library


def read(path: str | Path, format: str = "lab", *, memories: str | None = None) -> Library:  # noqa: A002 - the option's name
    """Read a recording, a folder of recordings, or a shipped set (``shipped:operators``).

    ``format`` is a name that ``lab recordings list`` prints. ``memories`` selects the source of the memories, for
    formats that offer several. Raises :class:`lab.base.errors.UnusableInput` for unreadable input; the message names
    the file, the line and the fix.
    """
    from lab.base.set_registry import recordings_at
    from lab.recordings.readers import read_library

    return read_library(recordings_at(str(path)), format, memories=memories)
