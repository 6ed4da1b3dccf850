"""Standard streams that never fail: what they cannot take changes no exit code.

Characters that the encoding lacks are replaced. Output to a closed, full or broken stream is discarded, and
:func:`failure` says why.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The reader ended, as ``head`` does: it has what it wants.
_ENDED = (errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN)


class Steady(io.RawIOBase):
    """A raw stream that keeps the first error of writing in ``failure`` and discards what follows.

    ``owner`` is kept, because it closes the raw stream when nothing refers to it any more.
    """

    def __init__(self, raw: Any, owner: object = None) -> None:
        self._raw, self._owner = raw, owner
        self.failure: OSError | None = None

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return bool(self._raw.isatty())

    def fileno(self) -> int:
        """Return the number of the file."""
        return int(self._raw.fileno())

    def write(self, data: ReadableBuffer) -> int:
        """Write, or discard everything after an error."""
        size = memoryview(data).nbytes
        while self.failure is None:
            try:
                written = self._raw.write(data)
            except OSError as error:
                self.failure = error
            else:
                if written is not None:
                    return int(written)
                # Another program made the pipe non-blocking, and its reader is slow.
                select.select([], [self.fileno()], [])
        return size


def steady() -> None:
    """Make the standard streams of this process steady. Call it before a file is opened.

    A file that is opened while a standard stream is closed gets its number, and everything that writes to the stream
    would write into that file.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is the one that is closed.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - open until the process ends
    sys.stdout, sys.stderr = _steady(sys.stdout), _steady(sys.stderr)


def _steady(stream: Any) -> Any:
    if stream is None:
        return open(os.devnull, "w", encoding="utf-8", errors="replace")
    errors = "replace" if stream.errors in ("strict", "surrogateescape") else stream.errors
    raw = getattr(stream.buffer, "raw", stream.buffer)
    if not isinstance(raw, io.RawIOBase):
        stream.reconfigure(errors=errors)
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(Steady(raw, stream)),
        stream.encoding,
        errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def failure() -> OSError | None:
    """Return the error because of which output to stdout is incomplete; None if its reader ended by itself."""
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", None)
    error = raw.failure if isinstance(raw, Steady) else None
    return None if error is None or error.errno in _ENDED else error
