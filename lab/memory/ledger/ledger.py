"""Open, read and change a ledger: the SQLite file of observations that the sidecar governs (LD-1 to LD-3, LD-11).

``observations``, ``observations_fts`` and ``observations_fts_tri`` are as the sidecar writes them, so that each program
reads the other's file. The two search tables hold no text of their own, and no trigger fills them: code that inserts an
observation indexes it (:func:`index_rows`). ``lab_sources`` and ``lab_origins`` say which bytes of which log an
observation came from; the sidecar does not read them. A captured observation gets a kind and a language if it has none.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from lab.base.errors import CannotMeasure, CannotWrite, InUse, LabError, UnusableInput
from lab.base.files import cannot_write, require_finite
from lab.base.regex import regex
from lab.base.sqlite import create_missing, is_damaged_index, is_empty, tables, transaction
from lab.base.times import as_datetime, epoch_ms

COLUMNS = ("id", "ts", "kind", "summary", "summary_en", "lang", "tool_name", "detail_json")
# The newest version of the sidecar's schema that the lab knows (openclaw-context-pack 2.0.0).
NEWEST_VERSION = 3
FTS = "observations_fts"
TRIGRAM = "observations_fts_tri"
_TABLES = """
CREATE TABLE IF NOT EXISTS observations (
    id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT NOT NULL, kind TEXT, summary TEXT, summary_en TEXT, lang TEXT,
    tool_name TEXT, detail_json TEXT
);
CREATE INDEX IF NOT EXISTS idx_observations_tool_ts ON observations(tool_name, ts);
"""
_SEARCH = """
CREATE VIRTUAL TABLE IF NOT EXISTS observations_fts USING fts5(
    summary, summary_en, tool_name, detail_json, content='observations', content_rowid='id'
);
CREATE VIRTUAL TABLE IF NOT EXISTS observations_fts_tri USING fts5(
    summary, summary_en, content='observations', content_rowid='id', tokenize='trigram'
);
"""
# A source is known by its first line and by the digest of what was read of it, never by its name alone, so that a log
# that was rotated or copied is not read twice. ``archived`` is the path that rotation moves it to.
_OF_THE_LAB = """
CREATE TABLE IF NOT EXISTS lab_sources (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL, head TEXT NOT NULL, position INTEGER NOT NULL, lines INTEGER NOT NULL,
    digest TEXT NOT NULL, archived TEXT
);
CREATE INDEX IF NOT EXISTS lab_sources_head ON lab_sources(head);
CREATE TABLE IF NOT EXISTS lab_origins (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, source_id INTEGER NOT NULL, line INTEGER NOT NULL,
    position INTEGER NOT NULL, lengths BLOB NOT NULL
);
"""
# The fields that have a column; all others become part of the detail.
FIELDS = frozenset(
    ("ts", "kind", "summary", "summary_en", "text_en", "lang", "tool_name", "tool", "detail", "detail_json")
)
# Kinds that capture gives to everything; the sidecar replaces them.
OF_CAPTURE = ("note", "tool")
Row = tuple[str, str | None, str | None, str | None, str | None, str | None]
_HAN = regex("[\u3400-\u9fff]")
_WORD = regex("[A-Za-z]")
_STORE = ("memory_store", "memory.store")
_FLAGS = re.IGNORECASE
_PROBLEM = regex(r"\b(?:errors?|failed|failure|bug|broken|issue|problem)\b|錯誤|報錯|报错|失敗|故障|問題", _FLAGS)
_SOLUTION = regex(
    r"\b(?:fix(?:ed)?|solution|resolved?|workaround|repair(?:ed)?)\b|解法|修正|修復|解決|解决|繞過|绕过", _FLAGS
)
# In the order in which they are tried, each with its confidence.
_KINDS = (
    ("decision", 0.95, regex(r"\b(?:decided|decision|we choo?se|chosen)\b|決定|决定|決議|决议|採用|采用", _FLAGS)),
    (
        "preference",
        0.95,
        regex(r"\b(?:prefer(?:red|s)?|preference|always use|i like)\b|偏好|總是使用|总是使用|喜歡|喜欢", _FLAGS),
    ),
    (
        "plan",
        0.90,
        regex(
            r"\b(?:(?:plan|planned|planning) to|intend to|will|todo)\b|計畫|计划|打算|預計|预计|將會|将会|待辦|待办",
            _FLAGS,
        ),
    ),
)
# How long to wait for another process's write.
BUSY_SECONDS = 5.0
PAGE = 2000
GO_ON = ", and the same command goes on"
_BUSY = "{}: another process is writing the ledger; wait for it to end and run the command again"
_SAID: dict[int, tuple[type[LabError], str]] = {
    sqlite3.SQLITE_BUSY: (InUse, _BUSY),
    sqlite3.SQLITE_LOCKED: (InUse, _BUSY),
    sqlite3.SQLITE_NOTADB: (UnusableInput, "{}: is not an SQLite file; give the SQLite file of a ledger"),
    sqlite3.SQLITE_FULL: (
        CannotWrite,
        f"cannot write {{}}: the disk is full; the ledger is as before this batch{GO_ON}",
    ),
    sqlite3.SQLITE_READONLY: (CannotWrite, "cannot write {}: the file or its folder is read-only"),
    sqlite3.SQLITE_CANTOPEN: (
        UnusableInput,
        "{}: cannot be opened; check that the file and its folder can be read and written",
    ),
}
_SURROGATE = regex("[\ud800-\udfff]")
_READ = "SELECT id, ts, kind, summary, summary_en, lang, tool_name, detail_json FROM observations"


def moment(text: str) -> datetime | None:
    """Return a time in UTC, which is its zone if it names none (TI-2); None for a text that is no time."""
    try:
        # With its microseconds.
        time = datetime.fromisoformat(text.strip())
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        time_ms = epoch_ms(text)
        return None if time_ms is None else as_datetime(time_ms)


def stamp(time: datetime) -> str:
    """Return a time as a ledger writes it: ISO 8601 in UTC, whole seconds, ending in Z."""
    return time.astimezone(UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def create_tables(connection: sqlite3.Connection) -> None:
    """Create the tables that are missing, and index the observations in new search tables; nothing else is changed.

    The version of the sidecar's schema is left as it is: in a new file it is 0, and the sidecar adds its other tables
    when it opens the file.
    """
    statements = "".join((_TABLES, _SEARCH, _OF_THE_LAB)).split(";")
    create_missing(connection, filter(None, map(str.strip, statements)), "observations")


def require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    """Raise :class:`UnusableInput` if the file is no ledger, or one of a newer schema."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if is_empty(connection):
        raise UnusableInput(
            f"{path}: is an empty database, not a ledger; fill it with lab memory ledger ingest --write"
        )
    names = tables(connection)
    if "observations" not in names:
        shown = ", ".join(sorted(names)[:5]) or "none"
        raise UnusableInput(f"{path}: is not a ledger: it has no table observations (tables: {shown})")
    columns = {row[1] for row in connection.execute("PRAGMA table_info(observations)")}
    if missing := [name for name in COLUMNS if name not in columns]:
        raise UnusableInput(
            f"{path}: table observations has no column {missing[0]}; open the file once with the sidecar, which adds it"
        )
    if version > NEWEST_VERSION:
        raise UnusableInput(
            f"{path}: schema version {version} is newer than {NEWEST_VERSION}, the newest that is known; update the lab"
        )


def index_rows(connection: sqlite3.Connection, first: int, last: int) -> None:
    """Add the observations of these ids to the search tables. They must not be in them yet."""
    for table, columns in (
        (FTS, "summary, summary_en, tool_name, detail_json"),
        (TRIGRAM, "summary, summary_en"),
    ):
        connection.execute(
            f"INSERT INTO {table}(rowid, {columns}) SELECT id, {columns} FROM observations WHERE id BETWEEN ? AND ?",  # noqa: S608 - names of our own tables
            (first, last),
        )


def language(text: str | None) -> str:
    """Return ``zh``, ``mixed`` or ``en`` by the share of Chinese among a text's Chinese and ASCII characters."""
    text = text or ""
    han = len(_HAN.findall(text))
    if not han:
        return "en"
    share = han / (han + sum(sign.isascii() and sign.isalnum() for sign in text))
    return "zh" if share > 0.7 else "mixed" if share > 0.3 and _WORD.search(text) else "en"


def kind_of(text: str | None, tool: str | None) -> tuple[str, float, str]:
    """Return the kind of a text, how certain the rule is, and the rule's name, as the sidecar does (LD-3)."""
    text = unicodedata.normalize("NFKC", text or "")
    if _PROBLEM.search(text) and _SOLUTION.search(text):
        return "learning", 0.95, "rule:problem-solution"
    for kind, confidence, pattern in _KINDS:
        if pattern.search(text):
            return kind, confidence, f"rule:{kind}"
    stored = unicodedata.normalize("NFKC", tool or "").strip().lower() in _STORE
    return "note", 0.25, "fallback:memory-store" if stored else "fallback:note"


def detail_of(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return the detail of an observation: what it gives as such, and every field without a column."""
    given = observation.get("detail")
    if given is None:
        given = observation.get("detail_json") or {}
    if isinstance(given, str):
        try:
            value = json.loads(given)
        except (ValueError, RecursionError):
            value = None
        detail = value if isinstance(value, dict) else {"_raw_detail": given}
    else:
        detail = dict(given) if isinstance(given, dict) else {"_detail": given}
    detail.update((key, value) for key, value in observation.items() if key not in FIELDS)
    return detail


def row_of(observation: Mapping[str, Any], detail: dict[str, Any], now: str, *, upstream: bool) -> Row:
    """Return ``ts, kind, summary, summary_en, lang, tool_name``; a missing time becomes ``now``.

    A blank language and kind are filled. With ``upstream`` the kinds ``note`` and ``tool`` are replaced as well, as the
    sidecar does. The rule that named the kind goes into ``detail``.
    """
    kind, summary = _given_text(observation.get("kind")), _given_text(observation.get("summary"))
    tool = _given_text(observation.get("tool_name") or observation.get("tool"))
    plain, lang = (kind or "").strip().lower(), _given_text(observation.get("lang"))
    if not plain or (upstream and plain in OF_CAPTURE):
        kind, confidence, method = kind_of(summary, tool)
        detail.setdefault("classification", {"method": method, "confidence": confidence})
    return (
        _given_text(observation.get("ts") or now) or now,
        kind,
        summary,
        _given_text(observation.get("summary_en") or observation.get("text_en")),
        lang if lang and lang.strip() else language(summary),
        tool,
    )


def scope_name(value: Any) -> str | None:
    """Return a scope as names are compared: NFKC, lower case, a hyphen for whatever is not of ``a-z 0-9 . _ : / -``.

    None if nothing is left, or there was nothing.
    """
    token = unicodedata.normalize("NFKC", "" if value is None else str(value)).strip().lower()
    token = re.sub("-+", "-", re.sub("[^a-z0-9._:/-]+", "-", token))
    return token.strip("-./:_") or None


def given_scope(scope: str | None) -> str | None:
    """Return the compared name of a given scope; None, which means all scopes, only for None (LD-7, EP-9).

    Raises :class:`UnusableInput` if :func:`scope_name` leaves nothing of it, or not all of its letters and digits.
    """
    name = scope_name(scope)
    if scope is not None and name is None:
        raise UnusableInput(
            f"--scope {scope!r}: has no ASCII letter or digit, and scopes are compared by these; give a scope that has "
            "one, or leave out --scope for all scopes"
        )
    if scope is not None and any(one.isalnum() and not one.isascii() for one in unicodedata.normalize("NFKC", scope)):
        raise UnusableInput(
            f"--scope {scope!r}: scopes are compared by their ASCII letters and digits, so this is scope {name!r}; "
            "give that name if you mean it"
        )
    return name


def storable(text: str) -> str:
    """Return a text without what SQLite cannot hold: lone surrogates and NUL become U+FFFD."""
    if "\0" not in text and text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").replace("\0", "\ufffd")


def _given_text(value: Any) -> str | None:
    return None if value is None else storable(str(value))


class Observation(NamedTuple):
    """One row of a ledger, as stored. ``detail_json`` is text that may be no JSON object; see :meth:`detail`."""

    id: int
    ts: str
    kind: str | None
    summary: str | None
    summary_en: str | None
    lang: str | None
    tool_name: str | None
    detail_json: str | bytes | None

    @classmethod
    def of(cls, row: tuple[Any, ...]) -> Observation:
        """Return a row as read. Programs may have stored anything where a text belongs; only the detail keeps bytes."""
        identity, ts, *texts, detail = row
        kept = detail if isinstance(detail, bytes) else stored_text(detail)
        return cls._make((identity, stored_text(ts) or "", *map(stored_text, texts), kept))

    @property
    def detail(self) -> dict[str, Any]:
        """The detail as an object: empty if it is missing, or no JSON object."""
        return parse_detail(self.detail_json) or {}


def stored_text(value: Any) -> str | None:
    """Return a value of any type of SQLite as text; None for NULL."""
    if isinstance(value, bytes):
        return str(value, "utf-8", "replace")
    return None if value is None else str(value)


class Change(NamedTuple):
    """A new detail for an observation, and the text it was made from, which must still be there."""

    id: int
    before: str | bytes | None
    detail: Mapping[str, Any]


@contextmanager
def open_ledger(path: Path, *, write: bool = False, new: bool = False) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a ledger; with ``new``, it may be missing or empty. Without ``write`` nothing is changed.

    A connection to write is in WAL mode and commits by :func:`transaction` alone. Raises :class:`UnusableInput` for a
    file that is no ledger or is damaged, :class:`InUse` while another process writes it, :class:`CannotWrite` if the
    disk is full.
    """
    require_finite(path)
    if path.is_dir():
        raise UnusableInput(f"{path}: is a folder; give the SQLite file of a ledger")
    if not path.exists() and not new:
        raise UnusableInput(f"{path}: no such file; make a ledger with lab memory ledger ingest")
    if new:
        _create_private(path)
    address = _address(path, write or new)
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
            # Another program may have stored a text that is not UTF-8.
            connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            # A file that is no ledger is refused before anything is changed in it.
            if not new or not is_empty(connection):
                require_ledger(connection, path)
            if write or new:
                if not new or tables(connection):
                    require_ledger(connection, path)
                # After the check, because this changes the file, which may be the database of another program.
                connection.execute("PRAGMA journal_mode = WAL")
                # A commit that a power failure takes back takes back its place in the log as well, so it is redone.
                connection.execute("PRAGMA synchronous = NORMAL")
                with transaction(connection):
                    create_tables(connection)
            yield connection
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _translate(path, error) from error


def _create_private(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError as error:
        raise cannot_write(path, error) from error


def _address(path: Path, write: bool) -> str:
    """Return the address of a file for SQLite: read-only, and immutable where SQLite could not make its lock files."""
    address = path.resolve().as_uri()
    if write:
        return f"{address}?mode=rwc"
    locked = not os.access(path.resolve().parent, os.W_OK) and not Path(f"{path}-wal").exists()
    return f"{address}?mode=ro{'&immutable=1' if locked else ''}"


def _translate(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> Exception:
    """Return the lab's own error for one of SQLite, with the file's name and what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if is_damaged_index(error):
        return UnusableInput(
            f"{path}: the search tables are damaged; remove them with sqlite3 {quote(str(path))} "
            f"'DROP TABLE {FTS}; DROP TABLE {TRIGRAM}' and run "
            "lab memory ledger ingest --write, which makes them again"
        )
    # The message of SQLite quotes a damaged schema, of which a byte may be no UTF-8.
    if code == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
        return UnusableInput(
            f"{path}: the database is damaged; restore a copy, or save what is readable with "
            f"sqlite3 {quote(str(path))} .recover | sqlite3 recovered.sqlite"
        )
    if code in _SAID:
        kind, text = _SAID[code]
        return kind(text.format(path))
    if code == sqlite3.SQLITE_IOERR:
        return cannot_write(path, OSError(error.sqlite_errorname), f"; the ledger is as before this batch{GO_ON}")
    return CannotMeasure(f"{path}: SQLite says: {error}")


def parse_detail(text: str | bytes | None) -> dict[str, Any] | None:
    """Return the object in a detail; an empty one if the detail is missing, None if it is no JSON object."""
    if text is None or not text.strip():
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def observations(
    connection: sqlite3.Connection, *, after: int = 0, where: str = "", values: Iterable[Any] = ()
) -> Iterator[Observation]:
    """Yield the observations with an id above ``after``, by id, in pages, so that rows may be changed meanwhile.

    ``where`` is a condition in SQL with ``?`` for ``values``, as in ``"tool_name = ?"``.
    """
    condition = f"id > ? AND ({where})" if where else "id > ?"
    fixed = tuple(values)
    while rows := connection.execute(f"{_READ} WHERE {condition} ORDER BY id LIMIT {PAGE}", (after, *fixed)).fetchall():
        yield from map(Observation.of, rows)
        after = rows[-1][0]


def newest(connection: sqlite3.Connection, limit: int, *, tool_name: str | None = None) -> list[Observation]:
    """Return the ``limit`` observations with the highest ids, newest first; with ``tool_name``, of that tool alone."""
    condition, values = ("WHERE tool_name = ?", (tool_name,)) if tool_name is not None else ("", ())
    rows = connection.execute(f"{_READ} {condition} ORDER BY id DESC LIMIT ?", (*values, limit))
    return list(map(Observation.of, rows))


def get(connection: sqlite3.Connection, ids: Iterable[int]) -> list[Observation]:
    """Return the observations with these ids, by id; those that the ledger does not have are left out."""
    wanted = json.dumps(sorted(set(ids)))
    rows = connection.execute(f"{_READ} WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", (wanted,))  # noqa: S608 - a constant
    return list(map(Observation.of, rows))


def change_details(connection: sqlite3.Connection, changes: Iterable[Change]) -> list[int]:
    """Write new details in one transaction; return the ids of those written (LD-2).

    A row whose detail is no longer ``before`` was changed by somebody else meanwhile and is left alone. The search
    tables are left alone too: they hold the detail as it was ingested.
    """
    written: list[int] = []
    with transaction(connection):
        for change in changes:
            text = _dumped(change.detail)
            done = connection.execute(
                "UPDATE observations SET detail_json = ? WHERE id = ? AND detail_json IS ?",
                (text, change.id, change.before),
            )
            if done.rowcount:
                written.append(change.id)
    return written


def _dumped(detail: Mapping[str, Any]) -> str:
    """Return a detail as JSON. SQLite cannot hold a lone surrogate, so a detail with one keeps all its escapes."""
    text = json.dumps(detail, ensure_ascii=False)
    return json.dumps(detail) if _SURROGATE.search(text) else text
