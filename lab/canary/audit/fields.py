"""Read records of several lines with one field on each, such as the journal's export format or YAML (CL-12)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

from lab.canary.audit.streams import BLOCK

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
