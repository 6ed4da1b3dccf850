"""Read the lines of a log that contain a marker of the engine, as bytes and in constant memory."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, Protocol

from lab.errors import UnusableInput
from lab.files import require_finite

MARKER = b"openclaw-mem-engine:"
BLOCK = MAX_LINE = 1 << 20
STDIN = "-"
_GZIP = b"\x1f\x8b"


class Readable(Protocol):
    """A binary stream."""

    def read1(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, or none at the end."""


class MarkedLines:
    """An iterator over ``(line number, bytes)`` of the lines with a marker; bytes is None for a line that is too long.

    ``lines`` and ``bytes`` count what was read so far. ``broken`` says why reading ended early, if a gzip file is
    truncated or damaged; everything before the damage is read.
    """

    def __init__(self, stream: Readable) -> None:
        self.lines = self.bytes = 0
        self.broken: str | None = None
        self._stream = stream
        self._rest = self._marked()

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        return self._rest

    def look(self, count: int) -> list[bytes | None]:
        """Return the next lines with a marker without consuming them."""
        head = list(islice(self._rest, count))
        self._rest = chain(head, self._rest)
        return [line for _, line in head]

    def _marked(self) -> Iterator[tuple[int, bytes | None]]:
        rest, endless, marked = b"", False, False
        for block in self._blocks():
            end = block.rfind(b"\n") + 1
            if not end:
                rest += block
                if len(rest) > MAX_LINE:
                    endless, marked = True, marked or MARKER in rest
                    # A marker may span two blocks.
                    rest = rest[-len(MARKER) :]
                continue
            data, rest = rest + block[:end], block[end:]
            if endless:
                first, _, data = data.partition(b"\n")
                self.lines += 1
                if marked or MARKER in first:
                    yield self.lines, None
                endless = marked = False
            yield from self._within(data)
        if endless:
            self.lines += 1
            if marked or MARKER in rest:
                yield self.lines, None
        elif rest:
            yield from self._within(rest)
            self.lines += 1

    def _within(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with a marker in a piece that begins at the start of a line."""
        counted, at = 0, data.find(MARKER)
        while at >= 0:
            begin = data.rfind(b"\n", counted, at) + 1 or counted
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            self.lines += data.count(b"\n", counted, begin)
            counted = begin
            yield self.lines + 1, data[begin:end]
            at = data.find(MARKER, end)
        self.lines += data.count(b"\n", counted)

    def _blocks(self) -> Iterator[bytes]:
        try:
            while block := self._stream.read1(BLOCK):
                self.bytes += len(block)
                yield block
        except EOFError:
            self.broken = "the gzip file is truncated"
        except (gzip.BadGzipFile, zlib.error):
            self.broken = "the gzip file is damaged"


@contextmanager
def opened(name: str) -> Iterator[MarkedLines]:
    """Open a log: a file, a pipe, or ``-`` for stdin. gzip data is recognized by its first bytes."""
    if name != STDIN:
        require_finite(Path(name), pipes=True)
    try:
        with sys.stdin.buffer if name == STDIN else Path(name).open("rb") as file:
            yield MarkedLines(_unpacked(file))
    except FileNotFoundError:
        raise UnusableInput(f"{name}: no such file") from None
    except OSError as error:
        raise UnusableInput(f"{name}: cannot be read: {error.strerror or error}") from None


def _unpacked(file: BinaryIO) -> Readable:
    # The declared type of both readers is BinaryIO, which lacks peek and read1.
    packed = file.peek(2)[:2] == _GZIP  # type: ignore[attr-defined]  # both are buffered, and can peek
    return gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[return-value]  # both read as Readable does
