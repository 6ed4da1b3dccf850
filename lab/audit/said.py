"""What a line of a log says: the marker, the JSON behind it, and what the line tells of its time and session."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab.audit.damage import Damaged
from lab.audit.lines import MARKER

FAILED = "autoRecall failed"
_MARKER = MARKER.decode()
_NAME = re.compile(r"[A-Za-z][A-Za-z.]{0,47}(?![\w.])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")
_SESSION = re.compile(r"\bsession(?:_?(?:key|id))?[=:]\s?\"?([^\s\]\",;)]+)", re.IGNORECASE)
_COLOUR = re.compile(r"^(?:\x1b\[[0-9;]*m)+")
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "datetime")
_SESSIONS = ("sessionKey", "sessionId", "session", "session_key", "session_id")
# Where a time may stand before a message, and how deep a message may lie in a line of JSON.
_HEAD, _DEEPEST = 80, 4
# Seconds of the year 5138; a larger number counts milliseconds.
_SECONDS = 1e11
_decoder = json.JSONDecoder()


class Said(NamedTuple):
    """``name`` of the marker (blank for a sentence of the engine), and the text ``rest`` behind it.

    ``time`` is seconds since 1970; a time without a zone is UTC's.
    """

    name: str
    rest: str
    time: float | None
    session: str | None


def read_line(line: bytes) -> Said:
    """A line that holds a marker, plain or wrapped in JSON. One that cannot be read raises :class:`Damaged`."""
    wrapper = _object(line) if line.lstrip()[:1] == b"{" else None
    message = _message(wrapper, 0) if wrapper else None
    if message is not None:
        return _said(message, _time_of(wrapper), _session_of(wrapper))
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


def _said(message: str, time: float | None, session: str | None) -> Said:
    before, _, after = message.partition(_MARKER)
    name = _NAME.match(after)
    found = name[0].rstrip(".") if name else ""
    if time is None and (stamp := _TIME.search(before, 0, _HEAD)):
        time = _seconds(stamp[0])
    if session is None and (named := _SESSION.search(before)):
        session = named[1]
    return Said(found, after[len(found) :], time, session)


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


def _message(value: Any, depth: int) -> str | None:
    """The first string within a parsed line that holds the marker."""
    if isinstance(value, str):
        return value if _MARKER in value else None
    if depth < _DEEPEST and isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            found = _message(one, depth + 1)
            if found is not None:
                return found
    return None


def _fields(wrapper: dict[str, Any], names: tuple[str, ...]) -> list[Any]:
    """Fields of these names, those of the line itself before those of an object within."""
    groups = [wrapper, *(one for one in wrapper.values() if isinstance(one, dict))]
    return [group[name] for group in groups for name in names if name in group]


def _time_of(wrapper: dict[str, Any] | None) -> float | None:
    found = (_seconds(one) for one in _fields(wrapper or {}, _TIMES))
    return next((one for one in found if one is not None), None)


def _session_of(wrapper: dict[str, Any] | None) -> str | None:
    return next((one for one in _fields(wrapper or {}, _SESSIONS) if isinstance(one, str) and one), None)


def _seconds(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.replace(",", "."))
        except ValueError:
            return None
        value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _SECONDS * 1e3:
        return None
    return value / 1e3 if value >= _SECONDS else float(value)
