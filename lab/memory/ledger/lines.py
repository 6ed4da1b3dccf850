"""Read a JSON Lines log of observations: every line is an observation, malformed with a reason, or not yet complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol

# A longer line is counted and skipped without being held in memory.
LONGEST = 1 << 20


class Hash(Protocol):
    """What of :mod:`hashlib` is used here."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...


class Line(NamedTuple):
    """A line with its number from 1, its first byte and its length in bytes.

    ``observation`` is None if the line is malformed; then ``problem`` says why, unless the line is blank.
    """

    number: int
    position: int
    length: int
    observation: dict[str, Any] | None
    problem: str = ""


def read_lines(file: BinaryIO, hashed: Hash, *, position: int = 0, number: int = 0) -> Iterator[Line]:
    """Yield the lines of a file from a position on, adding their bytes to ``hashed``; ``number`` lines come before.

    A last line without a line break is yielded if it is a complete JSON object. Otherwise its writer has not finished
    it, or was killed: it is not yielded, and its bytes are not added.
    """
    file.seek(position)
    while data := file.readline(LONGEST + 1):
        number += 1
        length = len(data)
        if data.endswith(b"\n"):
            hashed.update(data)
            yield Line(number, position, length, *_parsed(data))
        elif length <= LONGEST:
            observation, _ = _parsed(data)
            if observation is not None:
                hashed.update(data)
                yield Line(number, position, length, observation)
            return
        else:
            rest = _end_of_line(file)
            if rest is None:
                return
            file.seek(position)
            length += rest
            _add(file, hashed, length)
            yield Line(number, position, length, None, f"longer than {LONGEST >> 20} MiB")
        position += length


def _end_of_line(file: BinaryIO) -> int | None:
    """Read to the end of a line; return the number of bytes, None if the line has no end yet."""
    length = 0
    while data := file.readline(LONGEST):
        length += len(data)
        if data.endswith(b"\n"):
            return length
    return None


def _add(file: BinaryIO, hashed: Hash, length: int) -> None:
    while length:
        data = file.read(min(length, LONGEST))
        hashed.update(data)
        length -= len(data)


def _parsed(data: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return the object in a line and why there is none; neither for a blank line."""
    if not data.strip():
        return None, ""
    if b"\0" in data:
        return None, "holds NUL bytes"
    try:
        # SQLite cannot read NaN and Infinity in JSON, so they become texts.
        value = json.loads(data, parse_constant=str)
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except (ValueError, RecursionError):
        return None, "not JSON"
    return (value, "") if isinstance(value, dict) else (None, "not a JSON object")
