"""Parse a log line of the engine: its marker, the JSON after it, and the line's time, session and trace ids."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from lab.canary.audit.damage import Damaged
from lab.canary.audit.documents import parsed_json
from lab.canary.audit.lines import MARKER
from lab.canary.audit.log_times import written_clock, written_time
from lab.canary.audit.wrappers import Context, find_marker, unwrap, unwrap_value

FAILED = "autoRecall failed"
_MARKER = MARKER.decode()
_SESSION = re.compile(r"\bsession(?:_?(?:key|id))?[=:]\s?\"?([^\s\]\",;)]+)", re.IGNORECASE)
_COLOUR = re.compile(r"^(?:\x1b\[[0-9;]*m)+")
_COLOUR_BEHIND = re.compile(r"(?:\x1b\[[0-9;]*m|\s)+\Z")
DAY = 86400
_JSON = (b"{", b"[")
_decoder = json.JSONDecoder()


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


def read_lines(line: bytes) -> list[LogLine]:
    """Parse a line that contains a marker; return the engine's lines in it, at least one. Raises :class:`Damaged`.

    Collectors wrap lines, and may keep several in one (:mod:`lab.canary.audit.wrappers`).
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
