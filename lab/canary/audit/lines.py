"""Read the lines of a log that contain a marker of the engine, as bytes and in constant memory.

A record may have several lines with one field on each, as in the journal's export format or in YAML (CL-12).

Container runtimes cut a line after 16 KiB; the parts of a record are joined (CL-10). A part says that it is one by the
flag P of the Kubernetes log format, by a field such as ``logtag`` or ``partial_message``, or, in Docker's format, by a
text without the line feed at its end.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from lab.base.files import reading, require_finite
from lab.base.regex import regex
from lab.canary.audit.streams import (
    BLOCK,
    UTF8,
    Readable,
    Records,
    decoded,
    encoding_of,
    is_document,
    parsed_json,
    unpacked,
    why_broken,
)

_FLAGGED = regex(rb"(\S+ )?(stdout|stderr) ([PF])(?::\S*)? ")
_TEXTS = ("log", "message", "MESSAGE", "msg", "line")
# The fields of Docker's own log, whose last part ends with a line feed.
_DOCKER = {"log", "stream", "time", "attrs"}
_MOST_PARTS, _LONGEST = 256, BLOCK
# Parts of a record that are kept together at the end of a block.
_MOST_HELD = BLOCK // 2
# Parts before the one with the marker: a gateway's line has it near its beginning.
_MOST_BEFORE = 4
_MOST_FAILURES = 4
# How records begin: the journal's export and verbose formats, databases that print a column on each line, and YAML.
_STARTS = (
    rb"__CURSOR=",
    rb"(?:\w+ )?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[^\n]*\[s=",
    rb"-\[ RECORD \d+ \]",
    rb"\*{3,} \d+\. row \*{3,}",
    rb"---\r?\n(?=[\w@'\"-]+:)",
)
# A name, then = or : or the bar of a table; or a name alone, before a text with its length.
_FIELD = regex(rb"[ \t]*([A-Za-z_@][\w.@-]*)[ \t]*(?:=|:(?=\s)|\|(?= )) ?([^\n]*)(?:\n|\Z)")
_BINARY = regex(rb"([A-Z_][A-Z0-9_]*)\n")
# What lines of a gateway have, whichever part of it wrote them, before and within a collector's records.
_OF_GATEWAY = regex(rb"gateway|openclaw|\[plugins\]|subsystem", re.IGNORECASE)
_LINE = regex(rb"([^\n]*)(?:\n|\Z)")
_BLOCK_TEXT = regex(r"[|>][+-]?")
MARKER = b"openclaw-mem-engine:"
# The beginning of the marker as the journal writes a text with colour codes: as a list of bytes.
_NUMBERS = tuple(separator.join(b"%d" % byte for byte in MARKER) for separator in (b",", b", "))
MAX_LINE = BLOCK
STDIN = "-"


class _Part(NamedTuple):
    """A line of a container's log: its stream, its text, and whether the record goes on behind it.

    ``is_guess`` says that only a missing line feed says so.
    """

    stream: object
    text: bytes | str
    goes_on: bool
    record: dict[str, object] | None = None
    name: str = ""
    is_guess: bool = False


class Parts:
    """What joins the parts of one log's records.

    Some collectors remove the line feeds from Docker's format, so that every line seems to go on. After a few records
    without a last part, and none with one, such lines are read as they are.
    """

    def __init__(self) -> None:
        self._failures = 0

    def end_of_records(self, data: bytes, *, guess: bool = True) -> int:
        """Return the end of the last line of some data whose record does not go on behind the data.

        Without ``guess``, a record goes on only if it says so.
        """
        end = len(data)
        while end and len(data) - end <= _MOST_HELD:
            begin = data.rfind(b"\n", 0, end - 1) + 1
            part = self._part(data[begin : end - 1])
            if part is None or not part.goes_on or (part.is_guess and not guess):
                return end
            end = begin
        return end if not end else len(data)

    def _goes_on(self, line: bytes) -> bool:
        part = self._part(line)
        return part is not None and part.goes_on

    def around(self, data: bytes, least: int, begin: int, end: int) -> tuple[bytes, int, int]:
        """Return the record that the line ``data[begin:end]`` is a part of, as one line, with its begin and end.

        A record begins at ``least`` or behind it. One whose last part is not found is read as the line that it is.
        """
        line = data[begin:end]
        if self._part(line) is None:
            return line, begin, end
        first = begin
        for _ in range(_MOST_BEFORE):
            before = data.rfind(b"\n", least, max(least, first - 1)) + 1 or least
            if before >= first or not self._goes_on(data[before : first - 1]):
                break
            first = before
        for at in dict.fromkeys((first, begin)):
            joined = self._whole(data, at)
            if joined is not None and joined[1] >= end:
                return joined[0], at, joined[1]
        return line, begin, end

    def _whole(self, data: bytes, begin: int) -> tuple[bytes, int] | None:
        """Return the record that begins with a line that goes on, and the end of its last line; None without one."""
        at = data.find(b"\n", begin)
        first = self._part(data[begin:at]) if at >= 0 else None
        if first is None or not first.goes_on:
            return None
        texts, size = [first.text], len(first.text)
        for _ in range(_MOST_PARTS):
            following = data.find(b"\n", at + 1)
            following = len(data) if following < 0 else following
            part = self._part(data[at + 1 : following])
            if part is None or (part.name, part.record is None) != (first.name, first.record is None):
                break
            at = following
            # Parts of both streams of a container may alternate.
            if part.stream == first.stream:
                texts.append(part.text)
                size += len(part.text)
                if size > _LONGEST:
                    break
                if not part.goes_on:
                    self._failures = -_MOST_FAILURES
                    return _joined(data[begin : data.find(b"\n", begin)], first, texts), at
        self._failures += 1
        return None

    def _part(self, line: bytes) -> _Part | None:
        part = _part(line)
        if part is not None and part.is_guess and self._failures >= _MOST_FAILURES:
            return None
        return part


def _part(line: bytes) -> _Part | None:
    if line[:1] != b"{":
        flagged = _FLAGGED.match(line)
        return _Part(flagged[2], line[flagged.end() :].rstrip(b"\r"), flagged[3] == b"P") if flagged else None
    # Few lines are parsed: a part has one of these fields.
    if b'"stream"' not in line and b"artial" not in line:
        return None
    record = parsed_json(line)
    if not isinstance(record, dict):
        return None
    name = next((name for name in _TEXTS if isinstance(record.get(name), str)), None)
    if name is None:
        return None
    text = str(record[name])
    flags = {key.lower(): str(value).lower() for key, value in record.items()}
    partial = {value for key, value in flags.items() if key.endswith(("partial", "partial_message"))}
    is_guess = False
    if "logtag" in flags:
        more = flags["logtag"] == "p"
    elif partial:
        more = "true" in partial and flags.get("partial_last", flags.get("container_partial_last")) != "true"
    else:
        is_guess = more = name == "log" and record.keys() <= _DOCKER and not text.endswith("\n")
    return _Part(record.get("stream"), text, more, record, name, is_guess)


def _joined(line: bytes, first: _Part, texts: list[bytes | str]) -> bytes:
    """Return one line that says it is whole, because a kept copy of it is read again."""
    if first.record is None:
        head = line.rstrip(b"\r")[: -len(first.text) or None].replace(b" P", b" F", 1)
        return head + b"".join(text for text in texts if isinstance(text, bytes))
    kept = {key: value for key, value in first.record.items() if "partial" not in key.lower()}
    whole = kept | {first.name: "".join(str(text) for text in texts)}
    return json.dumps(whole | {"logtag": "F"} if "logtag" in whole else whole).encode()


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

    In a log of one record a line, lines with one of ``also`` are yielded as well.

    ``lines`` and ``bytes`` count what was read so far. ``broken`` says why reading ended early, if a gzip file is
    truncated or damaged; everything before the damage is read.
    """

    def __init__(self, stream: Readable, packing: str | None = None, also: tuple[bytes, ...] = ()) -> None:
        self.lines = self.bytes = 0
        self._also = also
        self.broken: str | None = None
        # Whether the log begins as text does, and with lines of a gateway. A line with a marker is one, wherever it is.
        self.is_text = self.of_gateway = True
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
        self.of_gateway = _OF_GATEWAY.search(first) is not None
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
        for number, line in marked(data, self._parts, self._also):
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
def opened(name: str, also: tuple[bytes, ...] = ()) -> Iterator[MarkedLines]:
    """Open a log: a file, a pipe, or ``-`` for stdin. Compressed data is recognized by its first bytes."""
    if name != STDIN:
        require_finite(Path(name), pipes=True)
    with reading(name), sys.stdin.buffer if name == STDIN else Path(name).open("rb") as file:
        yield MarkedLines(*unpacked(file), also)
