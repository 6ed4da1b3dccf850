"""Take off what log collectors put around a line, until a line of the gateway is left (CL-1 to CL-6).

There is one rule for all collectors, not one for each. A text is unwrapped as long as the marker lies within

* a JSON value, alone or behind a prefix: every record in it that has the marker is a line;
* a quoted text, as in key=value logs, or a cell of a table, whose quotes are doubled;
* a list of bytes, as the journal writes texts with colour codes;
* several lines, of which each is read alone.

What is left is a line of the gateway with whatever stands before it. Its own time counts; a line without one, or
without a time zone, has that of the nearest wrapper that has one.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lab.canary.audit.lines import MARKER, find_bytes
from lab.canary.audit.log_times import Seconds, read_seconds, written_time

_MARKER = MARKER.decode()
_NAME = re.compile(r"[A-Za-z][A-Za-z._]{0,47}(?![\w.@/-])")
# The prefix of the engine's tools, which ordinary lines mention as ``openclaw-mem-engine:memory_store``.
_TOOL = "memory_"
# A marker after one of these characters is part of an id, such as ``openclaw:openclaw-mem-engine:memory_store``.
_WITHIN_ID = re.compile(r"[\w.:@/-]\Z")
# A colour code; some programs write its first character as text, such as ``#033`` or ``\u001b``, or leave it out.
_COLOUR_BEFORE = re.compile(r"\[[0-9;]*m\Z")
# JSON after a name, in whatever notation: an id that is only mentioned has none.
_JSON_AFTER = re.compile(r"\s*\{")
# What may begin a JSON value or a quoted text.
_OPENS = re.compile(r'[{"]|\[(?=\s*["{\[\d])')
_CELL = re.compile(r'"((?:[^"]|"")*+)"(?!")')
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "e": "\x1b", "a": "\a", "v": "\v", "0": "\0"}
_ENTITIES = re.compile(r"&(?:quot|#34|#x22);")
# Wrappers within each other, levels of JSON within one wrapper, and values that are tried before the marker.
_LAYERS, _DEEPEST, _TRIES = 8, 24, 24
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "datetime")
_SESSIONS = ("sessionKey", "sessionId", "session", "session_key", "session_id")
_IDS = ("traceId", "spanId", "parentSpanId")
# Keys that name a time in any spelling, and those of a time at which a collector got the record, which come last.
_TIME_KEY = re.compile(r"time|date|(?:^|[^a-z])t$|ts$", re.IGNORECASE)
_LATE_KEY = re.compile(r"monotonic|ingest|receive|observed|index|create|update", re.IGNORECASE)
# Longer lists are records, not a record with its time.
_MOST_BESIDE = 8
_FIELD_NAMES = ("field", "name", "key")
_decoder = json.JSONDecoder(strict=False)


class Context(NamedTuple):
    """What wrappers say of a line: its time, its session and the host's trace ids."""

    time: Seconds | None = None
    session: str | None = None
    trace: str | None = None
    span: str | None = None
    parent: str | None = None

    def with_time(self, time: Seconds | None) -> Context:
        """Return the context with the time of something nearer to the line; one without a zone replaces no other."""
        if time is None or (self.time is not None and self.time[1] and not time[1]):
            return self
        return Context(time, self.session, self.trace, self.span, self.parent)


class Inner(NamedTuple):
    """A line without its wrappers."""

    text: str
    context: Context


NO_CONTEXT = Context()


def unwrap(text: str, context: Context = NO_CONTEXT, layer: int = 0) -> list[Inner]:
    """Return the lines of the gateway in a text; at least one if it contains the marker as text."""
    at = text.find(_MARKER)
    if at < 0:
        at = find_bytes(text)
    if at > 0 and layer < _LAYERS and (around := _value_around(text, at)) is not None:
        value, begin, end = around
        context = context.with_time(written_time(text[:begin]))
        if value.__class__ is str and context.time is None:
            # The time of a row of a table may stand behind the text.
            context = context.with_time(written_time(text[end:]))
        return _lines(value, context, layer + 1, 0)
    if "\n" in text and "\n" in text.rstrip():
        lines = [line for line in text.split("\n") if _MARKER in line]
        return [inner for line in lines for inner in unwrap(line, context, layer)]
    if layer < _LAYERS and text.find('{"', at) < 0 and _ENTITIES.search(text):
        return unwrap(html.unescape(text), context, layer + 1)
    return [Inner(text, context)] if _MARKER in text else []


def unwrap_value(value: Any) -> list[Inner]:
    """Return the lines of the gateway in a parsed JSON value, or an empty list."""
    return _lines(value, NO_CONTEXT, 0, 0)


def find_marker(message: str) -> tuple[int, str | None]:
    """Return the position and the name of the marker; the name is None if the line only mentions the engine."""
    first = at = message.index(_MARKER)
    while at >= 0:
        after = at + len(_MARKER)
        before = message[max(0, at - 16) : at]
        name = _NAME.match(message, after)
        apart = not _WITHIN_ID.search(before) or _COLOUR_BEFORE.search(before)
        if apart or (name and _JSON_AFTER.match(message, name.end())):
            marker = name[0].rstrip("._") if name else ""
            sentence = not message[after : after + 1].strip()
            if (marker and not marker.startswith(_TOOL)) or sentence:
                return at, marker
        at = message.find(_MARKER, at + 1)
    return first, None


def _value_around(text: str, at: int) -> tuple[Any, int, int] | None:
    """Return the JSON value or the quoted text that the marker at ``at`` lies in, with its begin and end."""
    begin = 0
    for _ in range(_TRIES):
        match = _OPENS.search(text, begin, at)
        if match is None:
            return None
        begin = match.start()
        is_text = match[0] == '"'
        if is_text and (cell := _cell(text, begin, at)):
            return cell
        try:
            value, end = _decoder.raw_decode(text, begin)
        except json.JSONDecodeError as error:
            is_cut = error.pos >= at or error.msg.startswith("Unterminated")
            if is_cut and text.startswith('{"', begin):
                # A broken value of a wrapper that is JSON: what is in it is not known.
                return None
            if is_text and (quoted := _quoted(text, begin, at)):
                return quoted
            begin += 1
            continue
        except (ValueError, RecursionError):
            return None
        if end <= at:
            begin = end
        elif is_text and value.endswith("{"):
            # The quote does not belong to a wrapper: it would end at the first quote of the engine's JSON.
            begin += 1
        else:
            return value, begin, end
    return None


def _cell(text: str, begin: int, at: int) -> tuple[str, int, int] | None:
    cell = _CELL.match(text, begin)
    if cell is None or cell.end() <= at or '""' not in cell[1]:
        return None
    return cell[1].replace('""', '"'), begin, cell.end()


def _quoted(text: str, begin: int, at: int) -> tuple[str, int, int] | None:
    """Return a quoted text with escapes that JSON does not have."""
    quoted = _QUOTED.match(text, begin)
    if quoted is None or quoted.end() <= at or quoted[1].endswith("{"):
        return None
    return _ESCAPE.sub(_unescaped, quoted[1]), begin, quoted.end()


def _unescaped(escape: re.Match[str]) -> str:
    byte, unit, octal, other = escape.groups()
    code = byte or unit
    if code or octal:
        return chr(int(code, 16) if code else int(octal, 8))
    return _ESCAPED.get(other, other)


def _lines(value: Any, context: Context, layer: int, depth: int) -> list[Inner]:
    """Return the lines in a JSON value."""
    if isinstance(value, str):
        return unwrap(value, context, layer) if _MARKER in value else []
    if depth >= _DEEPEST:
        return []
    if isinstance(value, dict):
        return _of_object(value, context, layer, depth)
    if not isinstance(value, list):
        return []
    if _is_bytes(value):
        return _lines(bytes(value).decode("utf-8", "replace"), context, layer, depth + 1)
    if named := _named_fields(value):
        return _lines(named, context, layer, depth + 1)
    context = context.with_time(_time_beside(value))
    return [inner for part in value for inner in _lines(part, context, layer, depth + 1)]


def _of_object(value: Mapping[str, Any], context: Context, layer: int, depth: int) -> list[Inner]:
    """Return the lines of an object: one text of its own, as hosts and collectors repeat it, else all in its parts."""
    context = _of_fields(value, context)
    mentions: list[Inner] = []
    for text in value.values():
        if (isinstance(text, str) and _MARKER in text) or _is_bytes(text):
            inners = _lines(text, context, layer, depth + 1)
            if any(find_marker(inner.text)[1] is not None for inner in inners):
                return inners
            mentions = mentions or inners
    found: list[Inner] = []
    for part in value.values():
        if isinstance(part, dict | list) and not _is_bytes(part):
            known = {inner.text for inner in found}
            found += [inner for inner in _lines(part, context, layer, depth + 1) if inner.text not in known]
    return found or mentions


def _of_fields(value: Mapping[str, Any], context: Context) -> Context:
    """Return the context that the fields of an object give; the fields of nested objects come after its own."""
    groups = [value, *(field for field in value.values() if isinstance(field, dict))]
    context = context.with_time(_time_of(groups))
    session = _first_text(groups, _SESSIONS)
    if session is not None:
        context = context._replace(session=session)
    ids = [_first_text(groups, (name,)) for name in _IDS]
    return context._replace(trace=ids[0], span=ids[1], parent=ids[2]) if any(ids) else context


def _time_of(groups: list[Mapping[str, Any]]) -> Seconds | None:
    for group in groups:
        for name in _TIMES:
            if name in group and (time := read_seconds(group[name])) is not None:
                return time
    named = [(name, field) for group in groups for name, field in group.items() if _TIME_KEY.search(name)]
    named.sort(key=lambda field: _LATE_KEY.search(field[0]) is not None)
    times = (read_seconds(field, certain=True) for _, field in named)
    return next((time for time in times if time is not None), None)


def _time_beside(values: list[Any]) -> Seconds | None:
    """Return the time that stands beside a text in a list, such as [time, text] or [[time, {}], {"log": text}]."""
    if len(values) > _MOST_BESIDE:
        return None
    beside = [part for value in values for part in (value if isinstance(value, list) else [value])]
    times = (read_seconds(part, certain=True) for part in beside[:_MOST_BESIDE] if not isinstance(part, dict | list))
    return next((time for time in times if time is not None), None)


def _named_fields(values: list[Any]) -> dict[str, Any] | None:
    """Return the object that a list such as [{"field": "@timestamp", "value": …}, …] writes, or None."""
    fields = {}
    for part in values:
        if not isinstance(part, dict) or "value" not in part:
            return None
        name = next((part[key] for key in _FIELD_NAMES if isinstance(part.get(key), str)), None)
        if name is None:
            return None
        fields[name] = part["value"]
    return fields or None


def _is_bytes(value: Any) -> bool:
    """Return whether a value is a list of the bytes of a text that is long enough for a marker."""
    if not isinstance(value, list) or len(value) < len(MARKER) or value[0].__class__ is not int:
        return False
    return all(part.__class__ is int and 0 <= part < 256 for part in value)


def _first_text(groups: list[Mapping[str, Any]], names: tuple[str, ...]) -> str | None:
    for group in groups:
        for name in names:
            field = group.get(name)
            if isinstance(field, str) and field:
                return field
    return None
