"""What a line of a log says: the marker, the JSON behind it, and what the line tells of its time and session."""

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
# Tools of the engine, which ordinary lines name as ``openclaw-mem-engine:memory_store``.
_TOOL = "memory_"
# What an id ends with that goes on with the marker: ``openclaw:openclaw-mem-engine:memory_store`` is a tool's.
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
# Where a time may stand before a message, and how deep a message may lie in a line of JSON.
_HEAD, _DEEPEST = 80, 4
DAY = 86400
# Seconds of the year 5138; a larger number counts milliseconds.
_SECONDS = 1e11
_decoder = json.JSONDecoder()
# Seconds since 1970, and whether a zone was named.
_Moment = tuple[float, bool]


class Said(NamedTuple):
    """A line that names the engine.

    ``name`` is that of the marker: blank for a sentence of the engine, None for an ordinary line that mentions an id,
    such as a tool's. ``rest`` is the text behind it, without colours and blanks at its end. ``time`` is seconds since
    1970; a time without a zone is taken as UTC, and ``zoned`` is false. ``clock`` is the second of the day, all that a
    console tells. ``trace``, ``span`` and ``parent`` are ids that a host gives to what belongs to one turn.
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


def read_line(line: bytes) -> Said:
    """A line that holds a marker, plain or wrapped in JSON. One that cannot be read raises :class:`Damaged`."""
    wrapper = _object(line) if line.lstrip()[:1] == b"{" else None
    message = _message(wrapper) if wrapper else None
    if wrapper and message is not None:
        ids = (_first_text(wrapper, (name,)) for name in ("traceId", "spanId", "parentSpanId"))
        return _said(message, _time_of(wrapper), _first_text(wrapper, _SESSIONS), *ids)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise Damaged("not_utf8", f"byte {error.start + 1} of the line is no UTF-8") from None
    return _said(text, None, None)


def payload(said: Said) -> dict[str, Any]:
    """The JSON object behind a marker; anything that follows it does not matter."""
    text = _COLOUR.sub("", said.rest).lstrip() if said.rest[:1] == "\x1b" else said.rest.lstrip()
    if not text.startswith("{"):
        raise Damaged("no_json", f"{said.name} without its JSON")
    whole = _object(text.encode("utf-8", "surrogatepass"))
    if whole is not None:
        return whole
    try:
        value: dict[str, Any] = _decoder.raw_decode(text)[0]
    except json.JSONDecodeError as error:
        ends = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        # In a wrapper that is cut off the quotes are still escaped.
        if ends or (text.startswith('{\\"') and not text.rstrip().endswith("}")):
            raise Damaged("cut_off", f"the JSON of {said.name} is cut off") from None
        raise Damaged("not_json", f"the JSON of {said.name} breaks at its character {error.pos + 1}") from None
    except (ValueError, RecursionError):
        raise Damaged("not_json", f"the JSON of {said.name} cannot be read") from None
    return value


def _said(message: str, moment: _Moment | None, session: str | None, *ids: str | None) -> Said:
    at, name = _marker(message)
    before, rest = message[:at], message[at + len(_MARKER) + len(name or "") :]
    if moment is None and (stamp := _TIME.search(before, 0, _HEAD)):
        moment = _seconds(stamp[0])
    time, zoned = moment or (None, False)
    clock = time % DAY if time is not None else _clock(before)
    if session is None and (named := _SESSION.search(before)):
        session = named[1]
    if rest[-1:] in "m \r\n\t":
        rest = _COLOUR_BEHIND.sub("", rest)
    return Said(name, rest, time, session, zoned, clock, *ids)


def _marker(message: str) -> tuple[int, str | None]:
    """Where the marker stands, and its name; a name of None where the engine is but mentioned."""
    first = at = message.index(_MARKER)
    while at >= 0:
        before = message[max(0, at - 16) : at]
        if not _WITHIN_ID.search(before) or _COLOUR_BEFORE.search(before):
            behind = at + len(_MARKER)
            name = _NAME.match(message, behind)
            found = name[0].rstrip("._") if name else ""
            sentence = not message[behind : behind + 1].strip()
            if (found and not found.startswith(_TOOL)) or sentence:
                return at, found
        at = message.find(_MARKER, at + 1)
    return first, None


def _clock(before: str) -> float | None:
    """The second of the day that stands before a marker."""
    found = _CLOCK.search(_COLOURS.sub(" ", before[:_HEAD]))
    if found is None:
        return None
    hours, minutes, seconds, fraction = found.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


def _object(data: bytes) -> dict[str, Any] | None:
    """An object in JSON, None where there is none."""
    import orjson

    try:
        value = orjson.loads(data)
    except ValueError:
        # Half of a pair, as JavaScript escapes it, is JSON, too.
        if rb"\ud" not in data and rb"\uD" not in data:
            return None
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _message(wrapper: dict[str, Any]) -> str | None:
    """The first string within a parsed line that holds the marker; one that mentions it where none does."""
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
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one, depth + 1)


def _fields(wrapper: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Fields of these names, those of the line itself before those of an object within."""
    groups = [wrapper, *(one for one in wrapper.values() if isinstance(one, dict))]
    return [group[name] for group in groups for name in names if name in group]


def _time_of(wrapper: dict[str, Any]) -> _Moment | None:
    found = (_seconds(field) for field in _fields(wrapper, _TIMES))
    return next((one for one in found if one is not None), None)


def _first_text(wrapper: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((field for field in _fields(wrapper, names) if isinstance(field, str) and field), None)


def _seconds(value: Any) -> _Moment | None:
    zoned = True
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.replace(",", "."))
        except ValueError:
            return None
        zoned = moment.tzinfo is not None
        value = (moment if zoned else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _SECONDS * 1e3:
        return None
    return (value / 1e3 if value >= _SECONDS else float(value)), zoned
