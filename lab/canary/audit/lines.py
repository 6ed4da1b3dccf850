"""Read the lines of a log that contain a marker of the engine, as bytes and in constant memory.

A record may have several lines with one field on each, as in the journal's export format or in YAML (CL-12).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

from lab.base.files import reading, require_finite
from lab.canary.audit.parts import Parts
from lab.canary.audit.streams import (
    BLOCK,
    UTF8,
    Readable,
    Records,
    decoded,
    encoding_of,
    is_document,
    unpacked,
    why_broken,
)

# How records begin: the journal's export and verbose formats, databases that print a column on each line, and YAML.
_STARTS = (
    rb"__CURSOR=",
    rb"(?:\w+ )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\n]*\[s=",
    rb"-\[ RECORD \d+ \]",
    rb"\*{3,} \d+\. row \*{3,}",
    rb"---\r?\n(?=[\w@'\"-]+:)",
)
# A name, then = or : or the bar of a table; or a name alone, before a text with its length.
_FIELD = re.compile(rb"[ \t]*([A-Za-z_@][\w.@-]*)[ \t]*(?:=|:(?=\s)|\|(?= )) ?([^\n]*)(?:\n|\Z)")
_BINARY = re.compile(rb"([A-Z_][A-Z0-9_]*)\n")
_LINE = re.compile(rb"([^\n]*)(?:\n|\Z)")
_BLOCK_TEXT = re.compile(r"[|>][+-]?")
MARKER = b"openclaw-mem-engine:"
# The beginning of the marker as the journal writes a text with colour codes: as a list of bytes.
_NUMBERS = tuple(separator.join(b"%d" % byte for byte in MARKER) for separator in (b",", b", "))
MAX_LINE = BLOCK
STDIN = "-"


def record_start(head: bytes) -> re.Pattern[bytes] | None:
    """Return how the records of a log begin, if it consists of records of several lines."""
    for start in _STARTS:
        if re.match(rb"\s*" + start, head):
            return re.compile(rb"^" + start, re.MULTILINE)
    return None


def records_of_fields(
    blocks: Iterator[bytes], start: re.Pattern[bytes], marked: Callable[[bytes], bool]
) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield the number of the first line, the lines, and as JSON the marked records; all others with blank bytes."""
    data, number = b"", 1
    for block in blocks:
        data += block
        begin = 0
        while following := start.search(data, begin + 1):
            # A start at the end of what was read may be the beginning of another one.
            yield from _record(data[begin : following.start()], number, marked)
            number += data.count(b"\n", begin, following.start())
            begin = following.start()
        data = data[begin:]
        if len(data) > 4 * BLOCK:
            yield number, 0, None
            number += data.count(b"\n")
            data = b""
    yield from _record(data, number, marked)


def _record(data: bytes, number: int, marked: Callable[[bytes], bool]) -> Iterator[tuple[int, int, bytes | None]]:
    import orjson

    lines = data.count(b"\n")
    if not marked(data):
        yield number, lines, b""
    elif len(data) > BLOCK:
        yield number, lines, None
    else:
        yield number, lines, orjson.dumps(_fields(data))


def _fields(data: bytes) -> dict[str, str]:
    """Return the fields of a record by name; the line before them is the field ``date``."""
    fields: dict[str, str] = {}
    at, name = 0, "date"
    while at < len(data):
        if binary := _BINARY.match(data, at):
            begin = binary.end() + 8
            end = begin + int.from_bytes(data[binary.end() : begin], "little")
            if end <= len(data):
                name = binary[1].decode()
                fields[name] = data[begin:end].decode("utf-8", "replace")
                at = end + 1
                continue
        found = _FIELD.match(data, at)
        if found and found[1] not in (b"http", b"https"):
            name, at = found[1].decode(), found.end()
            fields.setdefault(name, found[2].decode("utf-8", "replace").rstrip("\r"))
            continue
        line = _LINE.match(data, at)
        if line is None or line.end() == at:
            break
        text = line[1].decode("utf-8", "replace")
        if name in fields:
            # YAML folds long texts at blanks, and indents texts of several lines.
            known = fields[name]
            joint = "\n" if _BLOCK_TEXT.match(known) else " "
            fields[name] = known + joint + text.strip()
        else:
            fields[name] = text
        at = line.end()
    return {name: _unquoted(value) for name, value in fields.items()}


def _unquoted(value: str) -> str:
    """Return a value of YAML without its quotes."""
    text = value.strip()
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if len(text) > 1 and text[0] == text[-1] == '"':
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            return value
    return value


def find_bytes(text: str) -> int:
    """Return where a text has the marker as a list of bytes, or -1."""
    return max(text.find(numbers.decode()) for numbers in _NUMBERS)


def has_marker(line: bytes) -> bool:
    """Return whether a line contains the marker, as text or as a list of bytes."""
    return MARKER in line or (b"111," in line and any(numbers in line for numbers in _NUMBERS))


def marked(data: bytes, parts: Parts, also: tuple[bytes, ...] = ()) -> Iterator[tuple[int, bytes]]:
    """Yield the lines with a marker, or with one of ``also``, in data that begins at the start of a line.

    Each is yielded with its number.
    """
    lines = counted = 0
    others = [needle for needle in (*also, *_NUMBERS) if needle != MARKER and needle in data]
    at = _find_marker(data, 0, others)
    while at >= 0:
        begin = data.rfind(b"\n", counted, at) + 1 or counted
        end = data.find(b"\n", at)
        line, begin, end = parts.around(data, counted, begin, len(data) if end < 0 else end)
        lines += data.count(b"\n", counted, begin)
        counted = begin
        yield lines + 1, line
        at = _find_marker(data, end, others)


class MarkedLines:
    """An iterator over ``(line number, bytes)`` of the lines with a marker; bytes is None for a line that is too long.

    ``lines`` and ``bytes`` count what was read so far. ``broken`` says why reading ended early, if a gzip file is
    truncated or damaged; everything before the damage is read.
    """

    def __init__(self, stream: Readable, packing: str | None = None) -> None:
        self.lines = self.bytes = 0
        self.broken: str | None = None
        # Whether the log begins as text does.
        self.is_text = True
        self._stream, self._packing = stream, packing
        self._parts = Parts()
        self._rest = self._marked()

    def __iter__(self) -> Iterator[tuple[int, bytes | None]]:
        return self._rest

    def look(self, count: int) -> list[bytes | None]:
        """Return the next lines with a marker without consuming them."""
        head = list(islice(self._rest, count))
        self._rest = chain(head, self._rest)
        return [line for _, line in head]

    def _marked(self) -> Iterator[tuple[int, bytes | None]]:
        blocks = self._blocks()
        head: list[bytes] = []
        while sum(map(len, head)) < BLOCK and (block := next(blocks, b"")):
            head.append(block)
        begin = b"".join(head)
        encoding = encoding_of(begin, is_whole=len(begin) < BLOCK)
        texts = decoded(chain(head, blocks), encoding)
        first = next(texts, b"")
        self.is_text = b"\0" not in first.strip(b"\0")
        texts = chain([first], texts)
        if is_document(first if encoding != UTF8 else begin):
            records = Records(texts, has_marker)
            for self.lines, line in records:
                yield self.lines, line
            self.lines, self.broken = records.lines, self.broken or records.broken
        elif start := record_start(first):
            for number, lines, line in records_of_fields(texts, start, has_marker):
                if line != b"":
                    yield number, line
                self.lines = number + lines - 1
        else:
            yield from self._of_lines(texts)

    def _of_lines(self, blocks: Iterator[bytes]) -> Iterator[tuple[int, bytes | None]]:
        rest, endless, marked = b"", False, False
        for block in blocks:
            end = block.rfind(b"\n") + 1
            if not end:
                rest += block
                if len(rest) > MAX_LINE:
                    endless, marked = True, marked or has_marker(rest)
                    # A marker may span two blocks.
                    rest = rest[-len(MARKER) :]
                continue
            data, rest = rest + block[:end], block[end:]
            if endless:
                first, _, data = data.partition(b"\n")
                self.lines += 1
                if marked or has_marker(first):
                    yield self.lines, None
                endless = marked = False
            # A record in parts is read when all of them are there.
            whole = self._parts.end_of_records(data)
            data, rest = data[:whole], data[whole:] + rest
            yield from self._within(data)
        if endless:
            self.lines += 1
            if marked or has_marker(rest):
                yield self.lines, None
        elif rest:
            yield from self._within(rest)
            self.lines += not rest.endswith(b"\n")

    def _within(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines with a marker in a piece that begins at the start of a line."""
        before = self.lines
        for number, line in marked(data, self._parts):
            self.lines = before + number - 1
            yield before + number, line
        self.lines = before + data.count(b"\n")

    def _blocks(self) -> Iterator[bytes]:
        try:
            while block := self._stream.read1(BLOCK):
                self.bytes += len(block)
                yield block
        except Exception as error:
            self.broken = why_broken(self._packing, error)
            if self.broken is None:
                raise


def _find_marker(data: bytes, begin: int, others: list[bytes]) -> int:
    """Return the place of the next marker, or of one of the others, or -1."""
    at = data.find(MARKER, begin)
    for other in others:
        place = data.find(other, begin, at if at >= 0 else len(data))
        at = place if place >= 0 else at
    return at


@contextmanager
def opened(name: str) -> Iterator[MarkedLines]:
    """Open a log: a file, a pipe, or ``-`` for stdin. Compressed data is recognized by its first bytes."""
    if name != STDIN:
        require_finite(Path(name), pipes=True)
    with reading(name), sys.stdin.buffer if name == STDIN else Path(name).open("rb") as file:
        yield MarkedLines(*unpacked(file))
