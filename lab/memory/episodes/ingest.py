"""Insert the events of recordings and of the sidecar's spool into a ledger, each once (EP-2, EP-5).

Events past the retention period of their type are removed (EP-6), and no later ingest inserts them again.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import require_finite
from lab.base.formatting import shortened
from lab.base.sqlite import tables, transaction
from lab.base.times import LAST_MS, epoch_ms
from lab.memory.episodes.events import (
    ASSISTANT,
    CALL,
    EVENTS,
    EXPIRED,
    FTS,
    HEAD,
    OBSERVATION,
    READ,
    RESULT,
    RETENTION,
    SCHEMA_VERSION,
    STEMS,
    SUMMARY,
    USER,
    VECTORS,
    Event,
    Source,
    clean,
    content_id,
    event_id,
    is_from_reader,
    make_event,
    open_episodes,
)
from lab.memory.ledger import ledger
from lab.memory.ledger.ingest import LONGEST, read_lines
from lab.memory.ledger.ledger import given_scope, stamp
from lab.recordings.events import ToolUse
from lab.recordings.model import Recording, Turn
from lab.recordings.readers import read_library
from lab.systems.openclaw.capture.candidates import is_tool_like

SPOOL, SPOOL_SCHEMA = "spool", "openclaw-mem.episodes.spool.v0"
BATCH = 500
# The agent of events whose source names none.
AGENT = "main"
DUMP = "[REDACTED_TOOL_DUMP]"
_TYPES = {"user": USER, "assistant": ASSISTANT, "tool": RESULT, "system": OBSERVATION}
# An event is known by its id, or because the sidecar's extraction and a reader took it from the same transcript.
_KNOWN = (
    f"SELECT 1 FROM {EXPIRED} WHERE event_id IN (:event_id, :content) "  # noqa: S608 - names of our own tables
    f"UNION ALL SELECT 1 FROM {EVENTS} WHERE event_id = :event_id "
    f"UNION ALL SELECT 1 FROM {EVENTS} WHERE session_id = :session_id AND ts_ms = :ts_ms AND type = :type "
    # A plus sign keeps the whole payload out of the search for its beginning, which has an index.
    f"AND ({READ}) = :other AND {HEAD} = substr(:payload_json, 1, 128) AND +payload_json = :payload_json"
)
_INSERT = (
    f"INSERT INTO {EVENTS} ({', '.join(Event._fields)}, schema_version, created_at) "
    f"SELECT {', '.join(f':{name}' for name in Event._fields)}, :version, :at WHERE NOT EXISTS ({_KNOWN})"
)
DAY_MS = 86_400_000
_FIELDS = ", ".join(Event._fields)


@dataclass(slots=True)
class Ingested:
    """The counts of an ingest. ``already``: events there before, or expired. ``malformed``: lines by reason."""

    write: bool
    inserted: Counter[str] = field(default_factory=Counter)
    already: int = 0
    redacted: int = 0
    without_time: int = 0
    malformed: Counter[str] = field(default_factory=Counter)

    def receipt(self) -> dict[str, Any]:
        """Return the counts; no text of an event is in it."""
        return {
            "kind": "recall-lab.episodes.ingest.v1",
            "written": self.write,
            "inserted": self.inserted.total(),
            "by_type": dict(sorted(self.inserted.items())),
            "ingested_before": self.already,
            "payloads_dropped": self.redacted,
            "without_time": self.without_time,
            "malformed": dict(sorted(self.malformed.items())),
        }


def ingest(
    path: Path,
    recording: Path,
    format_name: str,
    *,
    now: datetime,
    write: bool = True,
    announce: Callable[[int], None] | None = None,
) -> Ingested:
    """Insert the events that the ledger at ``path`` does not have yet, in transactions of :data:`BATCH`.

    ``format_name`` is a format of recordings, or :data:`SPOOL` for events that the sidecar extracted. Without ``write``
    events are only counted. ``now`` is the time of the ingest, and of lines without a time. ``announce`` gets the
    number of events so far. Raises :class:`UnusableInput` as the readers do and as :func:`open_episodes`.
    """
    done = Ingested(write)
    if format_name == SPOOL:
        return insert(path, _spool_events(recording, now, done), done, now=now, announce=announce)
    library = read_library(recording, format_name)
    events = (event for one in library.recordings for event in recording_events(one, library.format.name))
    return insert(path, events, done, now=now, announce=announce)


def insert(
    path: Path,
    events: Iterable[Event],
    done: Ingested,
    *,
    now: datetime,
    announce: Callable[[int], None] | None = None,
) -> Ingested:
    """Insert the events that the ledger does not have yet, or count them if ``done`` says so; return ``done``.

    See :func:`ingest`. The first events are taken before the ledger is opened, so that a source that cannot be read
    changes no file.
    """
    source = iter(events)
    batch = list(islice(source, BATCH))
    count = len(batch)
    is_there = path.exists() and path.stat().st_size
    reading = ledger.open_ledger(path) if is_there and not done.write else nullcontext()
    with open_episodes(path, write=True, new=True) if done.write else reading as connection:
        while batch:
            if done.write and connection is not None:
                with transaction(connection):
                    _insert(connection, batch, stamp(now), done)
            else:
                _count(connection, batch, done)
            if announce:
                announce(count)
            batch = list(islice(source, BATCH))
            count += len(batch)
    return done


def is_spool(path: Path) -> bool:
    """Return whether a file begins with an event of a spool."""
    try:
        with path.open("rb") as file:
            return f'"{SPOOL_SCHEMA}"'.encode() in file.readline(LONGEST)
    except OSError:
        return False


def recording_events(recording: Recording, format_name: str) -> Iterator[Event]:
    """Yield the events of a recording in order."""
    for turn in recording.turns:
        yield from turn_events(recording.conversation, turn, format_name)


def turn_events(conversation: str, turn: Turn, format_name: str) -> Iterator[Event]:
    """Yield the event of a turn of any role, unless it is blank, and of the tool calls and results after it."""
    if turn.text.strip():
        yield _turn_event(conversation, turn, format_name)
    for use in turn.tool_uses:
        yield _tool_event(conversation, turn, use, format_name)


def _turn_event(conversation: str, turn: Turn, format_name: str) -> Event:
    text = turn.said.strip() or turn.text
    kind = _TYPES.get(turn.role, USER)
    payload = {"text": text} | ({"speaker": turn.speaker} if turn.speaker not in ("", turn.role) else {})
    identity = event_id(conversation, turn.key, kind, turn.text)
    source = Source(identity, turn.time_ms, turn.scope, _session(conversation, turn), AGENT, kind)
    # Cut only after secrets are replaced: half a secret is not recognised.
    return make_event(
        source,
        shortened(clean(text), SUMMARY),
        payload=payload,
        refs=_refs(format_name, turn.key),
        index=turn.index_text.strip() or text,
    )


def _tool_event(conversation: str, turn: Turn, use: ToolUse, format_name: str) -> Event:
    """Return the event of a call or a result. Only the summary keeps the output of a tool, unless that is a dump."""
    kind = RESULT if use.is_result else CALL
    text = DUMP if use.is_result and is_tool_like(use.text.strip()) else clean(use.text)
    payload: dict[str, Any] = {"tool": use.tool}
    payload |= {"is_error": use.is_error, "chars": len(use.text)} if use.is_result else {"arguments": text}
    identity = event_id(conversation, use.key, kind, use.text)
    source = Source(identity, use.time_ms, turn.scope, _session(conversation, turn), AGENT, kind)
    summary = shortened(f"{use.tool}: {text}", SUMMARY)
    return make_event(source, summary, payload=payload, refs=_refs(format_name, use.key), index=summary)


def _session(conversation: str, turn: Turn) -> str:
    """Return the id of a turn's session, which is unique among conversations."""
    named = turn.session == conversation or turn.session.startswith((f"{conversation}/", f"{conversation}#"))
    return turn.session if named else f"{conversation}/{turn.session}"


def _refs(format_name: str, key: str) -> dict[str, str]:
    return {"source": "recording", "format": format_name, "key": key}


def _spool_events(spool: Path, now: datetime, done: Ingested) -> Iterator[Event]:
    """Yield the events of a spool: JSON Lines in the form that the sidecar's extraction writes."""
    require_finite(spool)
    try:
        file = spool.open("rb")
    except OSError as error:
        raise UnusableInput(f"{spool}: cannot be read: {error.strerror}") from None
    valid = False
    with file:
        for line in read_lines(file):
            problem = line.problem
            if line.observation is not None:
                event = _spool_event(line.observation, now, done)
                if isinstance(event, Event):
                    valid = True
                    yield event
                else:
                    problem = event
            if problem:
                done.malformed[problem] += 1
    if not valid:
        raise UnusableInput(f"{spool}: has no line that is an event of a spool")


def _spool_event(line: dict[str, Any], now: datetime, done: Ingested) -> Event | str:
    """Return the event in a line, or what is wrong with the line."""
    texts = {name: line.get(name) for name in ("type", "session_id", "agent_id", "summary")}
    for name, value in texts.items():
        if not isinstance(value, str) or not value.strip():
            return f"no {name}"
    if line["type"] not in RETENTION:
        return "unknown type"
    time = epoch_ms(line.get("ts_ms"))
    if line.get("ts_ms") is None:
        time, done.without_time = int(now.timestamp() * 1000), done.without_time + 1
    if time is None or not 0 < time <= LAST_MS:
        return "a ts_ms that is no time"
    given, scope = line.get("event_id"), line.get("scope")
    identity = given if isinstance(given, str) and given.strip() else event_id(repr(sorted(line.items())))
    source = Source(
        identity,
        time,
        scope if isinstance(scope, str) else None,
        line["session_id"].strip(),
        line["agent_id"].strip(),
        line["type"],
    )
    try:
        return make_event(
            source,
            line["summary"].strip(),
            payload=line.get("payload"),
            refs=line.get("refs"),
            redacted=bool(line.get("redacted")),
        )
    except RecursionError:
        return "nested too deeply"


def _insert(connection: sqlite3.Connection, events: Iterable[Event], at: str, done: Ingested) -> None:
    for event in events:
        values = {**_looked_up(event), "version": SCHEMA_VERSION, "at": at}
        _tally(event, connection.execute(_INSERT, values).rowcount > 0, done)


def _count(connection: sqlite3.Connection | None, events: Iterable[Event], done: Ingested) -> None:
    has_episodes = connection is not None and {EVENTS, EXPIRED} <= tables(connection)
    for event in events:
        known = has_episodes and connection is not None and connection.execute(_KNOWN, _looked_up(event)).fetchone()
        _tally(event, not known, done)


def _looked_up(event: Event) -> dict[str, Any]:
    """Return the values by which :data:`_KNOWN` finds an event, with its columns."""
    other = not is_from_reader(event)
    return {**event._asdict(), "other": other, "content": content_id(event, from_reader=other)}


def _tally(event: Event, is_new: bool, done: Ingested) -> None:
    if is_new:
        done.inserted[event.type] += 1
        done.redacted += event.redacted
    else:
        done.already += 1


def expire(
    path: Path,
    *,
    now: datetime,
    days: Mapping[str, int | None] | None = None,
    scope: str | None = None,
    write: bool = True,
) -> dict[str, Any]:
    """Remove expired events with their vectors and words in one transaction; return the counts by type.

    ``days`` overrides :data:`RETENTION`. The ids stay known, and digests of the contents, so that no ingest inserts an
    expired event again. Without ``write`` events are only counted. ``scope`` None: all. Age is measured to ``now``.
    Raises as :func:`open_episodes` and :func:`given_scope`.
    """
    kept = RETENTION | dict(days or {})
    now_ms = int(now.timestamp() * 1000)
    limits = {kind: now_ms - number * DAY_MS for kind, number in kept.items() if number is not None}
    name = given_scope(scope)
    counts = dict.fromkeys(RETENTION, 0)
    chosen = f"FROM {EVENTS} WHERE type = ? AND ts_ms < ? AND (? IS NULL OR scope = ?)"
    with open_episodes(path, write=write) as connection, transaction(connection) if write else nullcontext():
        for kind, limit in limits.items():
            values = (kind, limit, name, name)
            counts[kind] = connection.execute(f"SELECT count(*) {chosen}", values).fetchone()[0]
            if write:
                expired = map(Event.of, connection.execute(f"SELECT {_FIELDS} {chosen}", values))
                known = ((name,) for event in expired for name in _names(event))
                connection.executemany(f"INSERT OR IGNORE INTO {EXPIRED} VALUES (?)", known)  # noqa: S608 - names of our own tables
                connection.execute(f"DELETE FROM {VECTORS} WHERE event_row_id IN (SELECT id {chosen})", values)  # noqa: S608 - names of our own tables
                connection.execute(f"DELETE {chosen}", values)
        # FTS5 keeps the words of what was deleted until it merges their blocks.
        for table in (FTS, STEMS) if write and any(counts.values()) else ():
            connection.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")  # noqa: S608 - names of our own tables
    return {
        "kind": "recall-lab.episodes.expire.v1",
        "written": write,
        "now_ms": now_ms,
        "removed": sum(counts.values()),
        "by_type": counts,
        "days": kept,
    }


def _names(event: Event) -> Iterator[str]:
    """Yield the id of an event and the digest of its content, by which an ingest recognizes it."""
    yield event.event_id
    content = content_id(event, from_reader=is_from_reader(event))
    if content is not None:
        yield content
