"""Open logs whatever their compression and encoding, as a stream of UTF-8 (CL-7, CL-8)."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import IO, Any, BinaryIO, Protocol

BLOCK = 1 << 20
# The first bytes of compressed files, and the name of each format.
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\x04\x22\x4d\x18": "lz4",
}
# The first bytes of texts that are not UTF-8; those of UTF-32 begin like those of UTF-16.
_MARKED = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Lines that are not UTF-8 at the beginning of a log in which no other line proves that it is: fewer are damage.
_FOREIGN = 3
UTF8 = "utf-8"


class Readable(Protocol):
    """A binary stream."""

    def read1(self, size: int, /) -> bytes:
        """Return at most ``size`` bytes, or none at the end."""


def unpacked(file: BinaryIO) -> tuple[Readable, str | None]:
    """Return the content of a file, and the name of its compression, which its first bytes tell, or None."""
    # The declared type of files and of stdin is BinaryIO, which lacks peek and read1.
    head = file.peek(6)[:6]  # type: ignore[attr-defined]  # both are buffered, and can peek
    packing = next((name for begin, name in _PACKED.items() if head.startswith(begin)), None)
    if packing is None:
        return file, None  # type: ignore[return-value]  # both read as Readable does
    if packing == "gzip":
        return gzip.GzipFile(fileobj=file), packing
    if packing == "bz2":
        return bz2.BZ2File(file), packing
    if packing == "xz":
        return lzma.LZMAFile(file), packing
    import pyarrow as pa

    return _Arrow(pa.CompressedInputStream(pa.PythonFile(file, "r"), packing)), packing


def why_broken(packing: str | None, error: Exception) -> str | None:
    """Return why a compressed file cannot be read on, or None if the error is another one."""
    if packing is None:
        return None
    if isinstance(error, EOFError):
        return f"the {packing} file is truncated"
    # The operating system's own errors have a number.
    if isinstance(error, gzip.BadGzipFile | zlib.error | lzma.LZMAError) or getattr(error, "errno", 0) is None:
        return f"the {packing} file is damaged"
    return None


def encoding_of(head: bytes, *, is_whole: bool) -> str:
    """Return the encoding of a log that begins with ``head``: by its byte order mark, its zero bytes, or its letters.

    A text of another encoding than UTF-8 or UTF-16 is taken for Windows-1252, which contains Latin-1, if at least
    three lines are not UTF-8 and none has a character that only UTF-8 explains.
    """
    for mark, encoding in _MARKED:
        if head.startswith(mark):
            return encoding
    units = len(head) // 2
    if units >= 8:
        low, high = head[: 2 * units : 2].count(0), head[1 : 2 * units : 2].count(0)
        if max(low, high) > units / 2 and min(low, high) < units / 20:
            return "utf-16-le" if high > low else "utf-16-be"
    if head.isascii():
        return UTF8
    lines = head.split(b"\n")
    if not is_whole:
        # The last line goes on behind the head.
        del lines[-1]
    foreign = 0
    for line in lines:
        if not line.isascii():
            try:
                line.decode()
            except UnicodeDecodeError:
                foreign += 1
            else:
                return UTF8
    return "cp1252" if foreign >= _FOREIGN else UTF8


def decoded(blocks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield the text of blocks as UTF-8; a character that is none becomes the replacement character."""
    if encoding != UTF8:
        decoder = codecs.getincrementaldecoder(encoding)("replace")
        blocks = (
            part.encode() for part in chain((decoder.decode(block) for block in blocks), (decoder.decode(b"", True),))
        )
    first = next(blocks, b"")
    yield first.removeprefix(codecs.BOM_UTF8)
    yield from blocks


class _Arrow:
    """A compressed stream of pyarrow, read as the standard library's are."""

    def __init__(self, stream: Any) -> None:
        self._stream: IO[bytes] = stream
        self._is_read = False

    def read1(self, size: int, /) -> bytes:
        block = self._stream.read(size)
        if not block and not self._is_read:
            raise EOFError
        self._is_read = True
        return block
