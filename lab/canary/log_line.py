"""Parse a log line of the engine: its marker, the JSON after it, and the line's time, session and trace ids."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab.canary.damage import Damaged
from lab.canary.lines import MARKER

FAILED = "autoRecall failed"
_MARKER = MARKER.decode()
_NAME = re.compile(r"[A-Za-z][A-Za-z._]{0,47}(?![\w.@/-])")
# The prefix of the engine's tools, which ordinary lines mention as ``openclaw-mem-engine:memory_store``.
_TOOL = "memory_"
# A marker after one of these characters is part of an id, such as ``openclaw:openclaw-mem-engine:memory_store``.
_WITHIN_ID = re.compile(r"[\w.:@/-]\Z")
_CLOCK = re.compile(r"(?<![\d:.-])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?(?![\d:])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")
_SESSION = re.compile(r"\bsession(?:_?(?:key|id))?[=:]\s?\"?([^\s\]\",;)]+)", re.IGNORECASE)
_COLOUR = re.compile(r"^(?:\x1b\[[0-9;]*m)+")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_COLOUR_BEFORE = re.compile(r"\x1b\[[0-9;]*m\Z")
_COLOUR_BEHIND = re.compile(r"(?:\x1b\[[0-9;]*m|\s)+\Z")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "datetime")
_SESSIONS = ("sessionKey", "sessionId", "session", "session_key", "session_id")
# Search for a time in this many characters before the marker, and for a message at most this deep in a JSON line.
_HEAD, _DEEPEST = 80, 4
DAY = 86400
# Seconds since 1970 of the year 5138; larger numbers are milliseconds.
_SECONDS = 1e11
_decoder = json.JSONDecoder()
# Seconds since 1970, and whether the time has a time zone.
_Time = tuple[float, bool]


class LogLine(NamedTuple):
    """A log line that names the engine.

    ``name`` is the name of the marker: blank for a plain message of the engine, None for an ordinary line that only
    mentions an id, such as a tool's. ``rest`` is the text after the marker, without trailing colour codes and blanks.
    ``time`` is in seconds since 1970; a time without a zone is read as UTC, and ``zoned`` is false. ``clock`` is the
    second of the day, which is all that a console prints. ``trace``, ``span`` and ``parent`` are the host's trace ids.
    """

    name: str | None
    rest: str
    time: float | None
    session: str | None
    zoned: bool = False
    clock: float | None = None
    trace: str | None = None
    span: str | None = None
    parent: str | None = None


def read_line(line: bytes) -> LogLine:
    """Parse a line that contains a marker, as plain text or inside JSON. Raises :class:`Damaged`."""
    wrapper = _object(line) if line.lstrip()[:1] == b"{" else None
    message = _message(wrapper) if wrapper else None
    if wrapper and message is not None:
        ids = (_first_text(wrapper, (name,)) for name in ("traceId", "spanId", "parentSpanId"))
        return _parsed(message, _time_of(wrapper), _first_text(wrapper, _SESSIONS), *ids)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Damaged("not_utf8", f"byte {error.start + 1} of the line is not UTF-8") from None
    return _parsed(text, None, None)


def payload(entry: LogLine) -> dict[str, Any]:
    """Return the JSON object after a marker, ignoring any text after it. Raises :class:`Damaged`."""
    text = _COLOUR.sub("", entry.rest).lstrip() if entry.rest[:1] == "\x1b" else entry.rest.lstrip()
    if not text.startswith("{"):
        raise Damaged("no_json", f"{entry.name} without its JSON")
    complete = _object(text.encode("utf-8", "surrogatepass"))
    if complete is not None:
        return complete
    try:
        value: dict[str, Any] = _decoder.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        # In a truncated JSON line, the quotes of the message are still escaped.
        if ends or (text.startswith('{\\"') and not text.rstrip().endswith("}")):
            raise Damaged("cut_off", f"the JSON of {entry.name} is truncated") from None
        raise Damaged("not_json", f"the JSON of {entry.name} is invalid at character {error.pos + 1}") from None
    except (ValueError, RecursionError):
        raise Damaged("not_json", f"the JSON of {entry.name} cannot be read") from None
    return value


def _parsed(message: str, time_and_zone: _Time | None, session: str | None, *ids: str | None) -> LogLine:
    at, name = _marker(message)
    before, rest = message[:at], message[at + len(_MARKER) + len(name or "") :]
    if time_and_zone is None and (stamp := _TIME.search(before, 0, _HEAD)):
        time_and_zone = _seconds(stamp[0])
    time, zoned = time_and_zone or (None, False)
    clock = time % DAY if time is not None else _clock(before)
    if session is None and (session_match := _SESSION.search(before)):
        session = session_match[1]
    if rest[-1:] in "m \r\n\t":
        rest = _COLOUR_BEHIND.sub("", rest)
    return LogLine(name, rest, time, session, zoned, clock, *ids)


def _marker(message: str) -> tuple[int, str | None]:
    """Return the position and the name of the marker; the name is None if the line only mentions the engine."""
    first = at = message.index(_MARKER)
    while at >= 0:
        before = message[max(0, at - 16) : at]
        if not _WITHIN_ID.search(before) or _COLOUR_BEFORE.search(before):
            after = at + len(_MARKER)
            name = _NAME.match(message, after)
            marker = name[0].rstrip("._") if name else ""
            sentence = not message[after : after + 1].strip()
            if (marker and not marker.startswith(_TOOL)) or sentence:
                return at, marker
        at = message.find(_MARKER, at + 1)
    return first, None


def _clock(before: str) -> float | None:
    """Return the second of the day in the text before a marker, or None."""
    match = _CLOCK.search(_COLOURS.sub(" ", before[:_HEAD]))
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


def _object(data: bytes) -> dict[str, Any] | None:
    """Return the JSON object in ``data``, or None if it is not one."""
    import orjson

    try:
        value = orjson.loads(data)
    except ValueError:
        # orjson rejects lone surrogates, which JavaScript escapes; the standard library accepts them.
        if rb"\ud" not in data and rb"\uD" not in data:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _message(wrapper: dict[str, Any]) -> str | None:
    """Return the first string of a parsed line with a marker, else the first that mentions the engine, else None."""
    mention = None
    for text in _texts(wrapper, 0):
        if _MARKER in text:
            if _marker(text)[1] is not None:
                return text
            mention = mention or text
    return mention


def _texts(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth < _DEEPEST and isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner, depth + 1)


def _fields(wrapper: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Return the values of these fields, those of the line before those of its nested objects."""
    groups = [wrapper, *(value for value in wrapper.values() if isinstance(value, dict))]
    return [group[name] for group in groups for name in names if name in group]


def _time_of(wrapper: dict[str, Any]) -> _Time | None:
    times = (_seconds(field) for field in _fields(wrapper, _TIMES))
    return next((time for time in times if time is not None), None)


def _first_text(wrapper: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((field for field in _fields(wrapper, names) if isinstance(field, str) and field), None)


def _seconds(value: Any) -> _Time | None:
    zoned = True
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value.replace(",", "."))
        except ValueError:
            return None
        zoned = parsed.tzinfo is not None
        value = (parsed if zoned else parsed.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _SECONDS * 1e3:
        return None
    return (value / 1e3 if value >= _SECONDS else float(value)), zoned
