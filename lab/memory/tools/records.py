"""Read the records of an import (E-93): an array, an object with ``items``, or one record a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import require_finite
from lab.systems.openclaw.table.admin import JSON

# No line that an export wrote is longer, not even one with a vector of 3,072 numbers and a long text. The limit is also
# that of a text in an array.
MAX_LINE_BYTES = 16 << 20
TOO_LONG, NO_JSON, NO_TEXT = "line_too_long", "invalid_json", "not_utf8"
_BOM = b"\xef\xbb\xbf"


class Broken(NamedTuple):
    """A line that holds no record: its number from 1, and the reason."""

    line: int
    reason: str


class Record(NamedTuple):
    """A value of the file, whatever its type, and the line that it is on, from 1; None in an array."""

    value: Any
    line: int | None = None


def read_records(path: Path, kind: str, *, strict: bool) -> list[Record]:
    """Return the records of a file in order.

    Raises :class:`UnusableInput` for a file that cannot be read, and for one that is no JSON as a whole. With
    ``strict``, as in the plugin, an invalid line does the same; otherwise it is a :class:`Broken` among the others.
    """
    require_finite(path)
    try:
        with path.open("rb") as file:
            if kind == JSON:
                return [Record(item) for item in _items(path, file.read())]
            return list(_lines(path, file, strict=strict))
    except FileNotFoundError:
        raise UnusableInput(f"{path}: no such file") from None
    except OSError as error:
        raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from None


def _items(path: Path, data: bytes) -> list[Any]:
    try:
        value = _parsed(data.removeprefix(_BOM).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise UnusableInput(f"{path}: not UTF-8 text (byte {error.start}); nothing was imported") from None
    except (ValueError, RecursionError) as error:
        raise UnusableInput(f"{path}: not JSON: {_why(error)}; nothing was imported") from None
    items = value.get("items") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise UnusableInput(f'{path}: expected an array of memories, or an object with an array "items"')
    return items


def _lines(path: Path, file: IO[bytes], *, strict: bool) -> Iterator[Record]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        record = _record(line.removeprefix(_BOM) if number == 1 else line, number)
        while len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE_BYTES + 1)
            record = Broken(number, TOO_LONG)
        if isinstance(record, Broken) and strict:
            raise UnusableInput(f"{path}:{number}: {record.reason}; nothing was imported")
        if record is not None:
            yield Record(record, number)


def _record(line: bytes, number: int) -> Any:
    """Return the value of a line, None if it is blank, or what is wrong with it."""
    if not line.strip():
        return None
    if len(line) > MAX_LINE_BYTES:
        return Broken(number, TOO_LONG)
    try:
        value = _parsed(line.decode("utf-8"))
    except UnicodeDecodeError:
        return Broken(number, NO_TEXT)
    except (ValueError, RecursionError):
        return Broken(number, NO_JSON)
    # A line "null" is a record without a text, not a blank line.
    return {} if value is None else value


def _parsed(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
