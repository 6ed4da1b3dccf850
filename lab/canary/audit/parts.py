"""Join records that a container runtime split into several lines of its log (CL-10).

Runtimes cut a line after 16 KiB. A part says so by the flag P of the Kubernetes log format, by a field such as
``logtag`` or ``partial_message``, or, in Docker's format, by a text without the line feed at its end.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from lab.canary.audit.streams import BLOCK, parsed_json

_FLAGGED = re.compile(rb"(\S+ )?(stdout|stderr) ([PF])(?::\S*)? ")
_TEXTS = ("log", "message", "MESSAGE", "msg", "line")
# The fields of Docker's own log, whose last part ends with a line feed.
_DOCKER = {"log", "stream", "time", "attrs"}
_MOST_PARTS, _LONGEST = 256, BLOCK
# Parts of a record that are kept together at the end of a block.
_MOST_HELD = BLOCK // 2
# Parts before the one with the marker: a gateway's line has it near its beginning.
_MOST_BEFORE = 4
_MOST_FAILURES = 4


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
