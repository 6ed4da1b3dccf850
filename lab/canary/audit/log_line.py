"""Parse a log line of the engine: its marker, the JSON after it, and the line's time, session and trace ids.

First, what log collectors put around a line is taken off (CL-1 to CL-6). There is one rule for all collectors, not one
for each. A text is unwrapped as long as the marker lies within

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
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.times import SECONDS, read_time
from lab.canary.audit.check import Damaged
from lab.canary.audit.lines import MARKER, find_bytes
from lab.canary.audit.streams import parsed_json

# Seconds since 1970, and whether the time has a time zone.
Seconds = tuple[float, bool]
# Search for a time in this many characters; longer fields are texts that may mention one.
_HEAD, _LONGEST = 200, 64
_ISO = regex(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:\s?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:]))?")
# A number of ten digits that begins with 1 is of the years 2001 to 2033; longer ones have parts of a second.
_NUMBER = regex(r"(?<![\w.:-])1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?![\w.:-])")
# Such as 01/Mar/2026:09:00:00 +0000.
_WRITTEN = regex(
    r"(\d{1,2})[ /-](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ /-](\d{4})[: ]+(\d\d:\d\d:\d\d)"
    r"(?:\s?(UTC|GMT|[+-]\d{4}))?"
)
_CLOCK = regex(r"(?<![\d:.-])([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:[.,](\d{1,9}))?(?![\d:])")
_COLOURS = regex(r"\x1b\[[0-9;]*m")
# 2000-01-01 and 2100-01-01, between which a number is certain to be a time.
_FROM, _BEFORE = 946_684_800, 4_102_444_800
_MARKER = MARKER.decode()
_NAME = regex(r"[A-Za-z][A-Za-z._]{0,47}(?![\w.@/-])")
# The prefix of the engine's tools, which ordinary lines mention as ``openclaw-mem-engine:memory_store``.
_TOOL = "memory_"
# A marker after one of these characters is part of an id, such as ``openclaw:openclaw-mem-engine:memory_store``.
_WITHIN_ID = regex(r"[\w.:@/-]\Z")
# A colour code; some programs write its first character as text, such as ``#033`` or ``\u001b``, or leave it out.
_COLOUR_BEFORE = regex(r"\[[0-9;]*m\Z")
# JSON after a name, in whatever notation: an id that is only mentioned has none.
_JSON_AFTER = regex(r"\s*\{")
# What may begin a JSON value or a quoted text.
_OPENS = regex(r'[{"]|\[(?=\s*["{\[\d])')
_CELL = regex(r'"((?:[^"]|"")*+)"(?!")')
_QUOTED = regex(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ESCAPE = regex(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "e": "\x1b", "a": "\a", "v": "\v", "0": "\0"}
_ENTITIES = regex(r"&(?:quot|#34|#x22);")
# Wrappers within each other, levels of JSON within one wrapper, and values that are tried before the marker.
_LAYERS, _DEEPEST, _TRIES = 8, 24, 24
_TIMES = ("time", "timestamp", "@timestamp", "ts", "date", "datetime")
_SESSIONS = ("sessionKey", "sessionId", "session", "session_key", "session_id")
_IDS = ("traceId", "spanId", "parentSpanId")
# Keys that name a time in any spelling, and those of a time at which a collector got the record, which come last.
_TIME_KEY = regex(r"time|date|(?:^|[^a-z])t$|ts$", re.IGNORECASE)
_LATE_KEY = regex(r"monotonic|ingest|receive|observed|index|create|update", re.IGNORECASE)
# Longer lists are records, not a record with its time.
_MOST_BESIDE = 8
_FIELD_NAMES = ("field", "name", "key")
_lenient_decoder = json.JSONDecoder(strict=False)
FAILED = "autoRecall failed"
# What the engine says when it starts.
STARTED = regex(r"registered \(db=(?P<db>[^,]*), table=(?P<table>[^,]*), model=(?P<model>[^,]*)")
_SESSION = regex(r"\bsession(?:_?(?:key|id))?[=:]\s?\"?([^\s\]\",;)]+)", re.IGNORECASE)
_COLOUR = regex(r"^(?:\x1b\[[0-9;]*m)+")
_COLOUR_BEHIND = regex(r"(?:\x1b\[[0-9;]*m|\s)+\Z")
DAY = 86400
_JSON = (b"{", b"[")
_decoder = json.JSONDecoder()


def read_seconds(value: object, *, certain: bool = False, searched: bool = False) -> Seconds | None:
    """Return the time that a field of a JSON line holds, or None; small numbers are seconds.

    ``certain`` is for fields that may be something else: the time must be of this century. A text that holds a time
    among other words is searched for it, unless it comes from a search.
    """
    time = None
    if isinstance(value, str):
        if value[4:5] == "-":
            # Most times are written so, and reading them is most of what a line without a wrapper needs.
            try:
                parsed = datetime.fromisoformat(value)
            except ValueError:
                pass
            else:
                zoned = parsed.tzinfo is not None
                time = (parsed if zoned else parsed.replace(tzinfo=UTC)).timestamp(), zoned
        elif len(value) < 8 or len(value) > _LONGEST:
            return None
    if time is None and (read := read_time(value, SECONDS)) is not None and read.ms > 0:
        time = read.ms / 1000, read.zoned
    if time is None and isinstance(value, str) and not searched:
        time = written_time(value)
    if time is None or (certain and not _FROM <= time[0] < _BEFORE):
        return None
    return time


def written_time(text: str) -> Seconds | None:
    """Return the time with its date that a text before or behind a line holds, or None.

    Of several times the last counts, which stands nearest to the line, or the last with a zone.
    """
    head = text[:_HEAD]
    nearest = None
    for found in _ISO.findall(head):
        time = read_seconds(found, searched=True)
        if time is not None and (nearest is None or time[1] >= nearest[1]):
            nearest = time
    if nearest is not None:
        return nearest
    if number := _NUMBER.search(head):
        read = read_time(number[0])
    elif written := _WRITTEN.search(head):
        day, month, year, clock, zone = written.groups(default="")
        read = read_time(f"{day} {month} {year} {clock} {zone}".rstrip())
    else:
        return None
    return None if read is None else (read.ms / 1000, read.zoned)


def written_clock(text: str) -> float | None:
    """Return the second of the day in a text before a line, or None."""
    match = _CLOCK.search(_COLOURS.sub(" ", text[:_HEAD]))
    if match is None:
        return None
    hours, minutes, seconds, fraction = match.groups()
    return int(hours) * 3600 + int(minutes) * 60 + int(seconds) + float(f"0.{fraction or 0}")


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
    if "\n" in text.rstrip():
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
            value, end = _lenient_decoder.raw_decode(text, begin)
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


def entries_in(lines: Iterable[tuple[int, bytes | None]]) -> Iterator[tuple[int, LogLine | None]]:
    """Yield the engine's lines of a log with the numbers of its lines; None for each damaged one."""
    for number, line in lines:
        try:
            entries: list[LogLine | None] = [*read_lines(line or b"")]
        except Damaged:
            entries = [None]
        for entry in entries:
            yield number, entry


def read_lines(line: bytes) -> list[LogLine]:
    """Parse a line that contains a marker; return the engine's lines in it, at least one. Raises :class:`Damaged`.

    Collectors wrap lines, and may keep several in one.
    """
    wrapper = parsed_json(line) if line.lstrip()[:1] in _JSON else None
    inners = unwrap_value(wrapper) if wrapper else []
    if not inners:
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            text = _from_marker(line, error)
        inners = unwrap(text)
    # Without a text that holds the marker, its bytes are those of something else.
    return [_parsed(inner.text, inner.context) for inner in inners] or [LogLine(None, "", None, None)]


def read_line(line: bytes) -> LogLine:
    """Parse a line as :func:`read_lines` does, and return the first line of the engine. Raises :class:`Damaged`."""
    return read_lines(line)[0]


def payload(entry: LogLine) -> dict[str, Any]:
    """Return the JSON object after a marker, ignoring any text after it. Raises :class:`Damaged`."""
    text = _COLOUR.sub("", entry.rest).lstrip() if entry.rest[:1] == "\x1b" else entry.rest.lstrip()
    if not text.startswith("{"):
        raise Damaged("no_json", f"{entry.name} without its JSON")
    complete = parsed_json(text.encode("utf-8", "surrogatepass"))
    if isinstance(complete, dict):
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


def _parsed(message: str, context: Context) -> LogLine:
    at, name = find_marker(message)
    before, rest = message[:at], message[at + len(_MARKER) + len(name or "") :]
    session = context.session
    if before:
        # An object that names the session is the host's own line, and no wrapper: its time counts.
        if context.time is None or session is None:
            context = context.with_time(written_time(before))
        if session is None and (session_match := _SESSION.search(before)):
            session = session_match[1]
    time, zoned = context.time or (None, False)
    clock = time % DAY if time is not None else written_clock(before)
    if rest[-1:] in "m \r\n\t":
        rest = _COLOUR_BEHIND.sub("", rest)
    return LogLine(name, rest, time, session, zoned, clock, context.trace, context.span, context.parent)


def _from_marker(line: bytes, error: UnicodeDecodeError) -> str:
    """Decode a plain line whose bytes before the marker are not UTF-8, such as the binary length of a field."""
    at = line.find(MARKER)
    if at > error.start and line.lstrip()[:1] not in (b"{", b"["):
        try:
            return line[:at].decode("utf-8", "replace") + line[at:].decode()
        except UnicodeDecodeError:
            pass
    raise Damaged("not_utf8", f"byte {error.start + 1} of the line is not UTF-8") from None
