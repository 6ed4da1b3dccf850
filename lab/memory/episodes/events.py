"""Make the events of a ledger: typed, bounded, without secrets, with ids made from their origin (EP-2 to EP-4).

Here are also their tables (EP-1), and a connection that cannot write any other table (EP-7). ``episodic_events`` with
its full-text index and ``episodic_event_embeddings`` are as the sidecar writes them, so that each program reads the
other's file (EP-10); ``lab_episodes_fts`` is the lab's own index, and ``lab_expired_episodes`` has the ids of events
that :mod:`lab.memory.episodes.ingest` removed; the sidecar reads neither. Triggers keep both indexes up to date,
whichever program writes.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.regex import regex
from lab.base.sqlite import allow_changes_of, create_missing, full_text_index, is_damaged_index, tables, transaction
from lab.memory.ledger import ledger
from lab.memory.ledger.ledger import scope_name, storable, stored_text
from lab.memory.tools.redact import MARKER, redactor
from lab.recordings.model import GLOBAL
from lab.systems.openclaw.capture.candidates import is_tool_like

SCHEMA_VERSION = "openclaw-mem.episodic.v0"
USER, ASSISTANT, CALL, RESULT, OBSERVATION = (
    "conversation.user",
    "conversation.assistant",
    "tool.call",
    "tool.result",
    "ops.observation",
)
# How many days events of a type are kept; None: for ever (EP-6).
RETENTION: dict[str, int | None] = {
    USER: 60,
    ASSISTANT: 90,
    CALL: 30,
    RESULT: 30,
    "ops.decision": None,
    "ops.alert": 90,
    OBSERVATION: None,
}
# Limits of JSON in bytes, and the characters kept as a preview of longer JSON.
PAYLOAD_BYTES, CONVERSATION_BYTES, REFS_BYTES, PREVIEW = 8192, 4096, 4096, 256
# Characters of a summary; fragments of a search text, and characters of each and of all.
SUMMARY, FRAGMENTS, FRAGMENT, SEARCH_TEXT = 220, 48, 400, 2400
_OUTPUT_KEYS = frozenset(("stdout", "stderr", "command_output", "tool_output"))
EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
_EMAIL = regex(EMAIL, re.ASCII)
# An international number, or one of ten digits in three groups; dates and ids are neither.
_PHONE = regex(
    r"(?<![\w+.-])(?:\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){2,5}|(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4})(?![\w-])",
    re.ASCII,
)
_redact = redactor(upstream=False)
# Refs with this are those of a reader of recordings, not of the sidecar's extraction.
FROM_READER = '"source":"recording"'
EVENTS, VECTORS, EXPIRED = "episodic_events", "episodic_event_embeddings", "lab_expired_episodes"
# The sidecar's full-text index, and the lab's, which has stems of words.
FTS, STEMS = "episodic_events_fts", "lab_episodes_fts"
# What an event is recognised by beside its session and time: whether a reader gave it, and how its payload begins.
READ, HEAD = f"instr(coalesce(refs_json, ''), '{FROM_READER}') > 0", "substr(payload_json, 1, 128)"
_INDEXED = ("summary", "search_text", "type", "session_id", "agent_id")
_STATEMENTS = (
    f"""CREATE TABLE IF NOT EXISTS {EVENTS} (
        id INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, ts_ms INTEGER NOT NULL, scope TEXT NOT NULL,
        session_id TEXT NOT NULL, agent_id TEXT NOT NULL, type TEXT NOT NULL, summary TEXT NOT NULL, payload_json TEXT,
        refs_json TEXT, redacted INTEGER NOT NULL DEFAULT 0, schema_version TEXT NOT NULL, created_at TEXT NOT NULL,
        search_text TEXT NOT NULL DEFAULT ''
    )""",
    f"CREATE UNIQUE INDEX IF NOT EXISTS uq_episodic_event_id ON {EVENTS}(event_id)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_scope_ts ON {EVENTS}(scope, ts_ms)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_session_ts ON {EVENTS}(session_id, ts_ms)",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_scope_type_ts ON {EVENTS}(scope, type, ts_ms)",
    # The lab's own: the events of a spool without times all have one time.
    f"CREATE INDEX IF NOT EXISTS lab_episodes_content ON {EVENTS}(session_id, ts_ms, {READ}, {HEAD})",
    f"""CREATE TABLE IF NOT EXISTS {VECTORS} (
        event_row_id INTEGER PRIMARY KEY, model TEXT NOT NULL, dim INTEGER NOT NULL, vector BLOB NOT NULL,
        norm REAL NOT NULL, search_text_hash TEXT NOT NULL, created_at TEXT NOT NULL,
        FOREIGN KEY(event_row_id) REFERENCES {EVENTS}(id) ON DELETE CASCADE
    )""",
    f"CREATE INDEX IF NOT EXISTS idx_episodic_event_embeddings_model ON {VECTORS}(model)",
    *full_text_index(FTS, EVENTS, _INDEXED, "episodic_events"),
    *full_text_index(STEMS, EVENTS, _INDEXED, "lab_episodes", ", tokenize='porter unicode61'"),
    f"CREATE TABLE IF NOT EXISTS {EXPIRED} (event_id TEXT PRIMARY KEY) WITHOUT ROWID",
)
# Everything that these statements make, the tables in which FTS5 keeps its indexes, and SQLite's list of them all.
_OWN = frozenset(
    (
        *re.findall(r"IF NOT EXISTS (\w+)", " ".join(_STATEMENTS)),
        *(f"{table}_{part}" for table in (FTS, STEMS) for part in ("data", "idx", "content", "docsize", "config")),
        "sqlite_master",
    )
)


class Event(NamedTuple):
    """One row of ``episodic_events``, without its number and the time of its ingest.

    ``redacted`` means that the payload was dropped. ``search_text`` is embedded, and searched beside ``summary``.
    """

    event_id: str
    ts_ms: int
    scope: str
    session_id: str
    agent_id: str
    type: str
    summary: str
    payload_json: str | None
    refs_json: str | None
    redacted: int
    search_text: str

    @classmethod
    def of(cls, row: Iterable[Any]) -> Event:
        """Return a row as read. Another program may have stored a value of any type in any column."""
        return cls._make(_stored(name, value) for name, value in zip(cls._fields, row, strict=True))


class Source(NamedTuple):
    """Where and when something happened: the fields of an event that need no guard."""

    event_id: str
    ts_ms: int
    scope: str | None
    session_id: str
    agent_id: str
    type: str


def make_event(
    source: Source, summary: str, *, payload: Any = None, refs: Any = None, index: str = "", redacted: bool = False
) -> Event:
    """Return an event with secrets, addresses and numbers replaced, bounded (EP-3), and its search text (EP-4).

    A payload that looks like the output of a tool is dropped. ``index`` is searched instead of the summary and the
    strings of payload and refs. Raises :class:`RecursionError` for a payload that is nested too deeply.
    """
    summary, payload, refs = clean(summary), _guarded(payload), _guarded(refs)
    if any(text and is_tool_like(text) for text in (summary, *_strings(payload))):
        payload, redacted, index = None, True, ""
    limit = CONVERSATION_BYTES if source.type.startswith("conversation.") else PAYLOAD_BYTES
    fragments = [clean(index)] if index else [summary, *_strings(payload), *_strings(refs)]
    return Event(
        storable(source.event_id),
        source.ts_ms,
        scope_name(source.scope) or GLOBAL,
        storable(source.session_id),
        storable(source.agent_id),
        source.type,
        storable(summary),
        _bounded(payload, limit, "payload_cap"),
        _bounded(refs, REFS_BYTES, "refs_cap"),
        int(redacted),
        storable(search_text(fragments)),
    )


def event_id(*parts: str) -> str:
    """Return an id made from these texts: the same texts give the same id in every ledger."""
    return "ep-" + hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def content_id(event: Event, *, from_reader: bool) -> str | None:
    """Return a digest of session, time, type and payload, as a reader or the sidecar's extraction gives them (EP-5).

    None for an event without a payload.
    """
    if event.payload_json is None:
        return None
    parts = (str(from_reader), event.session_id, str(event.ts_ms), event.type, event.payload_json)
    return f"content-{event_id(*parts).removeprefix('ep-')}"


def is_from_reader(event: Event) -> bool:
    """Return whether a reader of recordings gave this event, not the sidecar's extraction."""
    return FROM_READER in (event.refs_json or "")


def as_text(value: Any) -> str:
    """Return a stored value of any type as text; an empty one for NULL."""
    return stored_text(value) or ""


def _stored(column: str, value: Any) -> str | int | None:
    if column in ("ts_ms", "redacted"):
        return _whole(value)
    return None if value is None and column.endswith("_json") else as_text(value)


def _whole(value: Any) -> int:
    """Return a stored value of any type as a whole number; 0 if it is not a number."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return 0


# An event has the same text in its payload, its summary and its search text, and each search for secrets takes long.
@lru_cache(64)
def clean(text: str) -> str:
    """Return a text with secrets, e-mail addresses and telephone numbers replaced."""
    return _PHONE.sub("[REDACTED_PHONE]", _EMAIL.sub("[REDACTED_EMAIL]", _redact(text)))


def search_text(fragments: Iterable[str]) -> str:
    """Return the distinct fragments, one a line. A longer one than :data:`FRAGMENT` is split between words."""
    lines: dict[str, None] = {}
    for fragment in fragments:
        words = " ".join(fragment[: 2 * SEARCH_TEXT].split())
        lines |= dict.fromkeys(textwrap.wrap(words, FRAGMENT, break_on_hyphens=False))
    return "\n".join(list(lines)[:FRAGMENTS])[:SEARCH_TEXT]


def _guarded(value: Any, key: str = "") -> Any:
    """Return a value with its texts and keys cleaned, without the fields whose keys mark them as output.

    ``key`` is that of the value: a text or number that this key marks as a secret is replaced.
    """
    if isinstance(value, list):
        return [_guarded(item, key) for item in value]
    if isinstance(value, dict):
        return _guarded_object(value)
    if isinstance(value, str):
        value = clean(value)
    return MARKER if _is_secret_under(key, value) else value


def _guarded_object(value: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for given, item in value.items():
        if given not in _OUTPUT_KEYS and not given.startswith("raw_"):
            key = name = clean(given)
            if key in kept:
                # Two addresses become equal; each value stays.
                key = next(key for number in count(len(kept) + 1) if (key := f"{name} {number}") not in kept)
            kept[key] = _guarded(item, name)
    removed = len(value) - len(kept)
    return kept | ({"_redacted_output_fields": removed} if removed else {})


def _is_secret_under(key: str, value: Any) -> bool:
    """Return whether the redactor would change ``"key":value`` as JSON."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or not _may_name_secret(key):
        return False
    pair = f"{json.dumps(key, ensure_ascii=False)}:{json.dumps(value, ensure_ascii=False)}"
    return _redact(pair) != pair


# Most keys name no secret, and to search each text once more would take long.
@lru_cache(1024)
def _may_name_secret(key: str) -> bool:
    """Return whether the redactor would change a word with a digit, or a scheme with one, under this key."""
    name = json.dumps(key, ensure_ascii=False)
    pairs = f'{name}:"abc1",{name}:"digest abc1abc1"'
    return _redact(pairs) != pairs


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value; those of an object in the order of its keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _strings(value[key])
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _bounded(value: Any, limit: int, reason: str) -> str | None:
    """Return a value as JSON of at most ``limit`` bytes; for a larger one, its size and its beginning."""
    if value is None:
        return None
    text = _dumped(value)
    size = len(text.encode())
    if size <= limit:
        return text
    return _dumped({"_truncated": True, "original_bytes": size, "preview": text[:PREVIEW], "reason": reason})


def _dumped(value: Any) -> str:
    return storable(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


@contextmanager
def open_episodes(path: Path, *, write: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the episodes of a ledger, as :func:`lab.memory.ledger.ledger.open_ledger` does.

    The connection refuses to change any table but those of episodes (EP-7). With ``write``, missing tables are created,
    and the events are added to new full-text indexes. Also raises :class:`UnusableInput` if the ledger has no episodes
    and ``new`` is not given, and for a damaged index, with the remedy.
    """
    if not new and not path.exists():
        raise UnusableInput(f"{path}: no such file; make it with lab memory episodes ingest --write")
    with ledger.open_ledger(path, write=write, new=new) as connection:
        if write or new:
            # What is removed is overwritten in the file.
            connection.execute("PRAGMA secure_delete = ON")
        allow_changes_of(connection, _OWN)
        if not new and EVENTS not in tables(connection):
            raise UnusableInput(f"{path}: has no episodes; add some with lab memory episodes ingest --write")
        try:
            if write or new:
                with transaction(connection):
                    create_missing(connection, _STATEMENTS, EVENTS)
            yield connection
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
                raise UnusableInput(
                    f"{path}: a trigger or view of the file changes more than the tables of episodes, which is not "
                    "allowed; remove it, for the time of this command at least"
                ) from error
            if not is_damaged_index(error):
                raise
            raise UnusableInput(
                f"{path}: a full-text index of episodes is damaged; remove both with sqlite3 {quote(str(path))} "
                f"'DROP TABLE {FTS}; DROP TABLE {STEMS}' and run lab memory episodes ingest --write, which "
                "makes them again"
            ) from error
