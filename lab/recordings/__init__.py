"""What was said: recordings, their readers and their checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.recordings.readers import Library


def read(path: str | Path, format: str = "lab", *, memories: str | None = None) -> Library:  # noqa: A002 - the name of the option
    """Read a recording, or a folder of them; ``format`` is one of ``lab recordings list``.

    ``memories`` chooses what counts as a memory, where a format offers more than one thing. Raises
    :class:`lab.errors.UnusableInput` for what cannot be read, with file, line and what would mend it.
    """
    from lab.recordings.readers import read_library

    return read_library(Path(path), format, memories=memories)
