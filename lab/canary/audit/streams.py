"""Open logs whatever their compression and encoding, as a stream of UTF-8 (CL-7, CL-8).

JSON documents of any length are split into records, in constant memory (CL-9). Many exports are one document: an array
of records, or an answer with an array inside, indented or on one line. It is split into the largest values of at most
:data:`MOST` bytes that contain the marker, each of which is then read as one line is. Whatever stands between documents
is read line by line.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import IO, Any, BinaryIO, Protocol

from lab.base.regex import regex

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
# A record is smaller; more records than fit are read apart from each other, so that each has its line number.
MOST = 1 << 17
# Everything up to the next bracket: whole texts and what stands between them.
_RUN = regex(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_TEXT = regex(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_BLANK = regex(rb"[\s,]*")
_SPACE = regex(rb"\s+")
# The bytes of a text, which the journal writes as numbers.
_BYTES = regex(rb"\[\s*\d{1,3}\s*,")
_QUOTE, _OPENING = ord('"'), b"{["
_decoder = json.JSONDecoder()
# The end of a first line after which an indented document goes on.
_GOES_ON = (b"{", b"[", b",", b"}", b"]")


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


def parsed_json(data: bytes) -> Any:
    """Return the JSON value in ``data``, or None if it is none."""
    import orjson

    try:
        return orjson.loads(data)
    except ValueError:
        # orjson rejects lone surrogates, which JavaScript escapes; the standard library accepts them.
        if rb"\ud" not in data and rb"\uD" not in data:
            return None
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            return None


@dataclass(slots=True)
class _Open:
    """An object or array that is not closed: where it begins, and the marked values in it that were not yielded."""

    begin: int
    parts: list[tuple[int, int, int]] = field(default_factory=list)
    is_marked: bool = False
    is_large: bool = False


def is_document(head: bytes) -> bool:
    """Return whether a stream that begins so is a JSON document of several lines, or of one very long line."""
    text = head.lstrip()
    if text[:1] not in (b"{", b"["):
        return False
    first, newline, _ = text.partition(b"\n")
    first = first.rstrip()
    try:
        _decoder.raw_decode(first.decode("utf-8", "replace"))
    except json.JSONDecodeError as error:
        at_end = error.pos >= len(first.decode("utf-8", "replace"))
        if newline:
            return at_end and first.endswith(_GOES_ON)
        return at_end or error.msg.startswith("Unterminated")
    except (ValueError, RecursionError):
        return False
    return False


class Records:
    """An iterator over ``(line number, bytes)`` of the marked records of JSON documents; bytes is None if too long.

    ``marked`` returns whether bytes contain a marker. ``broken`` says why reading ended before the documents did.
    """

    def __init__(self, blocks: Iterator[bytes], marked: Callable[[bytes], bool]) -> None:
        self.lines = 0
        self.broken: str | None = None
        self._blocks, self._marked = blocks, marked
        self._data, self._at, self._counted = b"", 0, 0
        self._stack: list[_Open] = []

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        is_open = False
        for block in self._blocks:
            self._data += block
            is_open = not self._data.endswith(b"\n")
            yield from self._read()
            yield from self._forget()
            if self.broken:
                return
        yield from self._read(is_last=True)
        if self._stack:
            self.broken = "the JSON document is truncated"
            for opened in self._stack:
                yield from self._taken(opened)
        self._number(len(self._data))
        self.lines += is_open

    def _read(self, *, is_last: bool = False) -> Iterator[tuple[int, bytes | None]]:
        while True:
            if not self._stack:
                yield from self._between(is_last=is_last)
                if self._at >= len(self._data) or not self._data.startswith((b"{", b"["), self._at):
                    return
            begin, end = self._at, _RUN.match(self._data, self._at).end()  # type: ignore[union-attr]  # matches nothing
            if self._stack and end > begin:
                yield from self._texts(begin, end)
            self._at = end
            if end >= len(self._data) or self._data[end] == _QUOTE:
                # A text that goes on in the next block.
                if len(self._data) - end > 4 * MOST:
                    self.broken = "a text of the JSON document is too long"
                return
            self._at += 1
            if self._data[end] in _OPENING:
                self._stack.append(_Open(end))
            elif self._stack:
                yield from self._closed(self._stack.pop())

    def _between(self, *, is_last: bool) -> Iterator[tuple[int, bytes | None]]:
        """Pass over what stands between documents; a line that begins no document is yielded if it is marked."""
        while True:
            self._at = _BLANK.match(self._data, self._at).end()  # type: ignore[union-attr]  # matches nothing
            if self._at >= len(self._data) or self._data.startswith((b"{", b"["), self._at):
                return
            end = self._data.find(b"\n", self._at)
            if end < 0:
                if not is_last and len(self._data) - self._at <= MOST:
                    return
                end = len(self._data)
            line, number = self._data[self._at : end], self._number(self._at)
            if self._marked(line):
                yield number, line if len(line) <= MOST else None
            self._at = end
            if end == len(self._data):
                return

    def _texts(self, begin: int, end: int) -> Iterator[tuple[int, bytes | None]]:
        """Note the marked texts of a run."""
        if not self._marked(self._data[begin:end]):
            return
        for text in _TEXT.finditer(self._data, begin, end):
            if self._marked(text[0]):
                yield from self._noted(text.start(), text.end(), self._number(text.start()))

    def _noted(self, begin: int, end: int, number: int) -> Iterator[tuple[int, bytes | None]]:
        if self._stack and not self._stack[-1].is_large:
            self._stack[-1].parts.append((begin, end, number))
        else:
            yield number, self._data[begin:end] if end - begin <= MOST else None

    def _closed(self, closed: _Open) -> Iterator[tuple[int, bytes | None]]:
        """Note an object or array as one part of what it stands in, or yield its parts if it is large."""
        if closed.is_large:
            return
        value = self._data[closed.begin : self._at]
        if not closed.parts and value[:1] == b"[" and _BYTES.match(value) and self._marked(_SPACE.sub(b"", value)):
            closed.parts.append((closed.begin, self._at, self._number(closed.begin)))
        if closed.parts and len(value) <= MOST:
            yield from self._noted(closed.begin, self._at, closed.parts[0][2])
        else:
            yield from self._taken(closed)

    def _taken(self, opened: _Open) -> Iterator[tuple[int, bytes | None]]:
        """Yield the parts of an object or array, which are then forgotten."""
        for begin, end, number in opened.parts:
            yield number, self._data[begin:end] if end - begin <= MOST else None
        opened.parts.clear()

    def _forget(self) -> Iterator[tuple[int, bytes | None]]:
        """Drop the data that is not needed any more: everything before the first value that may be one record."""
        for opened in self._stack:
            if not opened.is_large and len(self._data) - opened.begin > MOST:
                yield from self._taken(opened)
                opened.is_large = True
        keep = min([self._at, *(opened.begin for opened in self._stack if not opened.is_large)])
        self._number(keep)
        self._data = self._data[keep:]
        self._at -= keep
        self._counted = max(0, self._counted - keep)
        for opened in self._stack:
            opened.begin -= keep
            opened.parts = [(begin - keep, end - keep, number) for begin, end, number in opened.parts]

    def _number(self, at: int) -> int:
        """Return the number of the line at a place in the data."""
        if at > self._counted:
            self.lines += self._data.count(b"\n", self._counted, at)
            self._counted = at
        return self.lines + 1
