"""Replace the memories of recordings by those of a store.

A store is the folder of the plugin's LanceDB, an export of it (E-1, E-39), or a running rsclaw.
Its table is ``memories``; the folder of a table, ``NAME.lance``, names another one.
The table of OpenClaw's own memory-lancedb has fewer columns: missing ones get defaults, with a note. Stores are never
written to. Texts are embedded again unless the stored vectors are requested. A row counts as stored without an
embedding if its vector is zero or empty, or null where other rows have vectors. A memory's key is the id of its row; it
is visible at turns that are not earlier than its ``createdAt``. A store over time may have the columns ``visibleAt``
and ``deletedAt``: from when a row was seen, if later, and until when it was there.

Row order matters: a LanceDB table without an index breaks ties by it. The lines of an export are ordered by time, which
is not the order of the table.

The documents of a running rsclaw are read over its HTTP API (RS-26): ``--memories-from http://HOST:PORT``. Only a
command that is given the address sends a request. What was read is kept in the cache, so that runs are repeated and
explained without the server; a manifest or a pool, which may come from others, never causes a request.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.files import digest, dump_json, private_folder, read_json, read_json_lines, write_atomically
from lab.base.shape import expect, field, json_type, optional
from lab.base.times import SECONDS as IN_SECONDS
from lab.base.times import Times, as_datetime, epoch_ms, without_arrow_times
from lab.base.utf16 import has_lone_surrogate
from lab.embedding.address import stays_private
from lab.embedding.cache import cache_folder
from lab.embedding.vectors import StoredVectors, stored_vectors
from lab.golden.model import GoldenSet
from lab.recordings.model import MEDIA, PROVENANCE, UNKNOWN, Memory, Recording, read_refs
from lab.recordings.readers import Library, check_probes
from lab.replay.scopes import scope_notes
from lab.retrieval.quiet import in_table
from lab.systems.openclaw.config.file import read_value, table_in
from lab.systems.openclaw.memory import normal_label, resolve_label
from lab.systems.openclaw.table.schema import BOOTSTRAP, TABLE, VECTOR
from lab.systems.plans import FIELD, read_due

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN = "LAB_RSCLAW_TOKEN"  # noqa: S105 - the name of a variable
SECONDS = 30.0
# The most documents that the API returns to one request.
MOST = 1000
_API = "/api/v1/memory"
_Row = tuple[dict[str, Any], str]


def is_address(text: str) -> bool:
    """Return whether a store is named by an address instead of a path."""
    return text.lower().startswith(("http://", "https://"))


def rows_at(address: str, *, cached: bool) -> Iterator[_Row]:
    """Yield the rows of a running rsclaw with their positions for messages.

    ``cached``: read what the last request returned. Raises :class:`UnusableInput` for an unusable address or a refused
    token, and :class:`CannotMeasure` if the server does not answer in full.
    """
    base = _base(address)
    kept = kept_at(base)
    if cached:
        if not kept.is_file():
            raise CannotMeasure(f"{base}: what it returned is not in the cache; replay with --memories-from again")
        documents = expect(read_json(kept), list, str(kept))
    else:
        documents = _documents(base)
        private_folder(kept.parent)
        write_atomically(kept, dump_json(documents, indent=None), private=True)
    yield from rows_of(documents, base)


def rows_of(documents: list[Any], where: str) -> Iterator[_Row]:
    """Yield the rows of documents as the API returns them; ``where`` names their source in messages."""
    for number, document in enumerate(documents, 1):
        at = f"{where}: docs[{number - 1}]"
        expect(document, dict, at)
        created = epoch_ms(field(document, "created_at", object, at), IN_SECONDS)
        if created is None:
            found = json_type(document["created_at"])
            raise UnusableInput(f"{at}: field 'created_at': expected seconds since 1970, found {found}")
        row = {name: field(document, name, str, at) for name in ("id", "text", "scope")}
        row |= {"category": field(document, "kind", str, at), "createdAt": as_datetime(created)}
        yield row | {"importance": document.get("importance"), "trust_tier": "user"}, at


def kept_at(base: str) -> Path:
    """Return the file of the cache that keeps what an address returned; the server's texts are readable in it."""
    return cache_folder() / "stores" / f"{digest(base)[:16]}.json"


def _documents(base: str) -> list[Any]:
    """Return all documents, in parts by scope and kind if there are more than one request returns."""
    counts = _asked(base, "stats", {})
    total = field(counts, "total", int, base)
    documents, there = _part(base, {})
    if max(there, total) > len(documents):
        documents = []
        for scope in sorted(field(counts, "by_scope", dict, base)):
            for kind in sorted(field(counts, "by_kind", dict, base)):
                part, there = _part(base, {"scope": scope, "kind": kind})
                if there > len(part):
                    raise CannotMeasure(
                        f"{base}: has {there} documents of kind {kind} in one scope, and returns only {len(part)} at a "
                        "time; export them there, and give the file"
                    )
                documents += part
    if len(documents) != total:
        raise CannotMeasure(
            f"{base}: counts {total} documents and returns {len(documents)}; it changed meanwhile, so try again"
        )
    return documents


def _part(base: str, query: Mapping[str, str]) -> tuple[list[Any], int]:
    answer = _asked(base, "docs", {**query, "limit": str(MOST)})
    documents = field(answer, "docs", list, base)
    # The document names no total (seed 002). A part as long as the limit may lack some.
    least = len(documents) + (len(documents) >= MOST)
    return documents, optional(answer, "total", int, least, base)


def _asked(base: str, what: str, query: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer to one request, a JSON object. Messages quote nothing of it."""
    from lab.embedding.http import NoAnswer, get

    url = f"{base}{_API}/{what}{'?' + urlencode(query) if query else ''}"
    name = f"{base}{_API}/{what}"
    try:
        answer = get(url, _headers(), SECONDS)
    except NoAnswer as error:
        raise CannotMeasure(f"{name}: {error}") from None
    status = answer.status
    if status in (401, 403):
        sent = f"refuses the token in {TOKEN}" if os.environ.get(TOKEN, "").strip() else f"needs a token; set {TOKEN}"
        raise UnusableInput(f"{name}: {sent} (status {status})")
    if status == 404:
        raise UnusableInput(f"{name}: is not there (status 404); give the address of the gateway, without a path")
    if 300 <= status < 400:
        raise UnusableInput(f"{name}: redirects (status {status}), which is not followed; give the other address")
    if status != 200:
        raise CannotMeasure(f"{name}: fails (status {status})")
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise CannotMeasure(f"{name}: the response is not JSON") from None
    if not isinstance(value, dict):
        raise CannotMeasure(f"{name}: the response is not a JSON object")
    return value


def _headers() -> dict[str, str]:
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):
        raise UnusableInput(f"{TOKEN}: contains characters that a token cannot have; set it again, or unset it")
    return {"Authorization": f"Bearer {token}"}


def _base(address: str) -> str:
    """Return scheme, host and port of an address; loopback unless it is https, because memories are private."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or not host.isascii() or parts.username is not None or parts.query or parts.fragment:
        raise UnusableInput("--memories-from: the address must be http://HOST:PORT, without user name, query or '#'")
    if parts.path.rstrip("/") not in ("", _API, f"{_API}/docs"):
        raise UnusableInput("--memories-from: give the address of the gateway without a path: http://HOST:PORT")
    shown = f"[{host}]" if ":" in host else host
    base = f"{parts.scheme}://{shown}{f':{port}' if port else ''}"
    if not stays_private(base):
        raise UnusableInput(f"{base}: memories would cross the network unencrypted; give an https:// address")
    return base


REQUIRED = ("id", "text")
# The column of the time: the plugin's, that of memory-lancedb-pro, and that of other writers. The first one is read.
TIMES = ("createdAt", "timestamp", "created_at")
# Values of fields that a table or a line lacks (E-2).
DEFAULTS = {"category": "other", "importance_label": "", "scope": "global", "trust_tier": "unknown"}
# Columns that every search of the plugin's recall filters by.
SEARCHED = ("importance_label", "scope")
NOT_SEARCHED = (
    "rows that the plugin itself could not search until they are imported with memory_import, because its searches "
    "need importance_label and scope"
)
# The score and where a text came from are optional (E-1); the flag and the due time are fields of the lab (E-58, PL-3).
# The time from which a row was seen, and that until which it was there, of a store over time.
VISIBLE, DELETED = OVER_TIME = "visibleAt", "deletedAt"
OPTIONAL = ("importance", "hard_rule", FIELD, *PROVENANCE, *MEDIA, *OVER_TIME)
# Rows that are read at once with their vectors.
BATCH = 1024
_SUFFIX = ".lance"
NOT_EMBEDDED = (
    "rows stored without an embedding (zero vectors), which profile upstream ranks as the plugin does "
    "and profile seed embeds anew"
)
WORKING_SET = "working_set:"
# Of rows that are no memories.
ONLY_UPSTREAM = ", which only profile upstream searches"


class Stored(NamedTuple):
    """The memories of a store in row order, without a recording, and notes on defaults and skipped rows.

    ``vectors`` has the stored vectors of rows with an embedding, if requested. ``others`` are the rows that are no
    memories (:class:`lab.recordings.model.Recording`). ``over_time`` has the epoch ms from and until which rows were
    seen, by key, where they are not their ``createdAt`` and for ever.
    """

    memories: tuple[Memory, ...]
    notes: tuple[str, ...]
    vectors: StoredVectors | None = None
    others: tuple[Memory, ...] = ()
    over_time: Mapping[str, tuple[int | None, int | None]] = MappingProxyType({})


def read_stored(store: Path | str, *, vectors: bool = False, cached: bool = False) -> Stored:
    """Read a LanceDB folder, or an export: JSON if its name ends in ``.json``, else JSON Lines; or an address.

    A folder ``NAME.lance`` inside of a LanceDB folder stands for the table ``NAME``.

    With ``vectors``, read the stored vectors too. ``cached``: an address is not queried again. Raises
    :class:`UnusableInput` if the path does not exist, has no such table, or has malformed rows, and
    :class:`CannotMeasure` if an address does not answer.
    """
    path, address = Path(store), isinstance(store, str) and is_address(store)
    if not (address or path.exists()):
        raise UnusableInput(f"{path}: no such LanceDB folder or export file")
    reader = _Rows(str(store))
    raw_vectors: dict[str, tuple[Any, str]] = {}
    found = rows_at(str(store), cached=cached) if address else None
    for row, at in found or (_table(path, vectors=vectors) if path.is_dir() else _export(path)):
        if reader.take_sound(row, at) and vectors:
            raw_vectors[row["id"]] = row.get(VECTOR), at
    reader.settle()
    if not reader.memories and reader.first_bad is not None:
        raise reader.first_bad
    if not reader.memories:
        raise UnusableInput(f"{store}: holds no memory with a text")
    if path.is_dir() and any(reader.counts[_assumed(name)] for name in SEARCHED):
        reader.counts[NOT_SEARCHED] = len(reader.memories)
    stored = None
    if vectors:
        stored, faults = _stored_vectors(path, raw_vectors, [*reader.memories, *reader.others])
        for rows in (reader.memories, reader.others):
            rows[:] = [memory for memory in rows if memory.key not in faults]
        for fault in faults.values():
            reader.leave_out(fault)
    memories = tuple(reader.memories)
    notes = (
        *(f"{store}: {what}: {count}" for what, count in reader.counts.items()),
        *(f"{store}: {note}" for note in scope_notes(memory.scope for memory in memories)),
    )
    return Stored(memories, notes, stored, tuple(reader.others), reader.over_time)


def _stored_vectors(
    store: Path, vectors: dict[str, tuple[Any, str]], memories: Sequence[Memory]
) -> tuple[StoredVectors, dict[str, str]]:
    """Return the vectors of memories, and the faults of those whose vector cannot be used, by key."""
    if all(vector is None for vector, _ in vectors.values()):
        raise UnusableInput(f"{store}: its rows have no field {VECTOR!r}; --vectors stored needs a LanceDB folder")
    embedded = {memory.key: vectors[memory.key] for memory in memories if memory.embedded}
    if not embedded:
        raise UnusableInput(f"{store}: every vector is all zeros; replay without --vectors stored")
    return stored_vectors(store, embedded)


def with_stored(library: Library, stored: Stored) -> Library:
    """Return the recordings with the memories of a store instead of their own.

    Memories are ordered by time, then key, and keep their row number in ``place``. Raises :class:`UnusableInput` if
    probes name memories that the store does not hold.
    """
    notes = list(stored.notes)
    recordings: list[Recording] = []
    rows, others = (
        sorted(part, key=lambda memory: (memory.created_at, memory.key)) for part in (stored.memories, stored.others)
    )
    created = [memory.created_at for memory in rows]
    for recording in library.recordings:
        times = [turn.time_ms for turn in recording.turns]
        # Memories older than a conversation are the same in all that are younger.
        old = 0 if stored.over_time else bisect_right(created, times[0])
        placed = (
            *rows[:old],
            *(_placed(memory, times, *stored.over_time.get(memory.key, (None, None))) for memory in rows[old:]),
        )
        if recording.memories:
            notes.append(f"{recording.conversation}: its own {len(recording.memories)} memories are ignored")
        younger = sum(memory.visible_from > len(recording.turns) for memory in placed)
        if younger:
            notes.append(
                f"{recording.conversation}: {younger} of {len(placed)} memories were stored after its last turn, "
                "so no turn can recall them"
            )
        recordings.append(replace(recording, memories=placed, others=tuple(others)))
    golden = GoldenSet(library.golden.probes, (*library.golden.notes, *notes))
    check_probes(recordings, golden.probes)
    known = [_identity(replace(memory, place=None)) for memory in (*stored.memories, *stored.others)]
    identity = digest([*known, sorted(stored.over_time.items())] if stored.over_time else known)
    return replace(library, memories="stored", recordings=tuple(recordings), golden=golden, stored=identity)


def _identity(memory: Memory) -> list[object]:
    """Return the values of a memory. Without provenance and due time, they are those of versions that read neither.

    Media are left out, because no system reads them.
    """
    *values, due = _KEPT(memory)
    provenance = values[-len(PROVENANCE) :]
    return [*values[: -len(PROVENANCE)], *(provenance if any(provenance) else ()), *([] if due is None else [due])]


_KEPT = attrgetter(*[part.name for part in fields(Memory)][: -len(MEDIA)])


def _placed(memory: Memory, times: Sequence[int], seen: int | None, gone: int | None) -> Memory:
    """Return the memory with its first visible turn; past the end of the recording if it is later than any probe.

    It is visible from ``seen``, or its creation, to ``gone``; these and the ``times`` of the turns are epoch ms.
    """
    since = memory.created_at if seen is None else seen
    first = bisect_left(times, since)
    # Probes from outside come a millisecond after the last turn.
    first += first == len(times) and since > times[-1] + 1
    until = None if gone is None else max(first, bisect_left(times, gone))
    # A copy of every memory for each conversation would take longer than the rest.
    if (memory.visible_from, memory.visible_until) == (first, until):
        return memory
    return replace(memory, visible_from=first, visible_until=until)


class _Rows:
    """Converts rows to memories, and counts defaults and skipped rows."""

    def __init__(self, store: str) -> None:
        self.store = store
        self.memories: list[Memory] = []
        self.others: list[Memory] = []
        self.counts: Counter[str] = Counter()
        self.over_time: dict[str, tuple[int | None, int | None]] = {}
        self._times = Times()
        # Why the first row that was left out cannot be read.
        self.first_bad: UnusableInput | None = None
        self._ids: set[str] = set()
        self._holds_vectors = False
        self._null: list[int] = []

    def take_sound(self, row: Any, at: str) -> bool:
        """Take a row; leave it out, with a count by kind, if it cannot be read. Return whether it was taken."""
        try:
            self.take(row, at)
        except UnusableInput as error:
            self.first_bad = self.first_bad or error
            self.leave_out(str(error).removeprefix(f"{at}: "))
            return False
        return True

    def leave_out(self, why: str) -> None:
        """Count a row that is left out. ``why`` is a kind, without values of the row."""
        self.counts[f"rows left out, because {why}"] += 1

    def take(self, row: dict[str, Any], at: str) -> None:
        """Take a row. Raises :class:`UnusableInput`, and takes nothing of it, if a field cannot be read."""
        identity = field(row, "id", str, at)
        # A null is read as a blank text, as the plugin reads it.
        text = "" if row.get("text", 0) is None else field(row, "text", str, at)
        if identity == BOOTSTRAP:
            return
        if not identity.strip():
            raise UnusableInput(f"{at}: field 'id' is blank")
        if has_lone_surrogate(identity):
            raise UnusableInput(f"{at}: field 'id' holds half a character (a lone surrogate)")
        if identity in self._ids:
            raise UnusableInput(f"{at}: an earlier row has its id, which the plugin reads in its place")
        counts: Counter[str] = Counter(_assumed(name) for name in DEFAULTS if name not in row)
        values = {name: _text_or_none(row, name, at) for name in DEFAULTS}
        vector = row.get(VECTOR)
        embedded = vector is None or _is_embedded(vector)
        flag = row.get("hard_rule")
        memory = Memory(
            identity,
            text,
            text,
            visible_from=0,
            created_at=0,
            category=values["category"] or DEFAULTS["category"],
            scope=values["scope"] or DEFAULTS["scope"],
            label=_label(row, values["importance_label"], counts, at),
            trust=values["trust_tier"] or DEFAULTS["trust_tier"],
            hard_rule=flag is not None and expect(flag, bool, f"{at}: field 'hard_rule'"),
            embedded=embedded,
            source_kind=_text_or_none(row, "source_kind", at) or "",
            source_ref=_text_or_none(row, "source_ref", at) or "",
            lang=_text_or_none(row, "lang", at) or "",
            due_at=_due(row, at),
            media_refs=read_refs(row.get("media_refs"), at),
            media_kind=_text_or_none(row, "media_kind", at) or "",
        )
        created = _created(row, self._times, at)
        # The row can be read, so that it counts.
        memory = replace(memory, created_at=created or 0, place=len(self._ids))
        self._ids.add(identity)
        if any(row.get(name) is not None for name in OVER_TIME):
            self.over_time[identity] = (epoch_ms(row.get(VISIBLE)), epoch_ms(row.get(DELETED)))
        self.counts.update(counts)
        self._holds_vectors |= vector is not None
        if identity.startswith(WORKING_SET):
            self.counts[f"working-set rows{ONLY_UPSTREAM}"] += 1
            self.others.append(memory)
        elif not text.strip():
            self.counts[f"rows without a text{ONLY_UPSTREAM}"] += 1
            self.others.append(memory)
        else:
            if created is None:
                self.counts["rows without a time, visible from the start"] += 1
            if not embedded:
                self.counts[NOT_EMBEDDED] += 1
            elif vector is None and VECTOR in row:
                self._null.append(len(self.memories))
            self.memories.append(memory)

    def settle(self) -> None:
        """Count odd times, and, if some rows have vectors, rows with a null one as stored without an embedding."""
        if self._holds_vectors and self._null:
            self.counts[NOT_EMBEDDED] += len(self._null)
            for index in self._null:
                self.memories[index] = replace(self.memories[index], embedded=False)
        self.counts.update(self._times.counts())


def _label(row: dict[str, Any], label: str | None, counts: Counter[str], at: str) -> str:
    """Return the label of a row, and count what it was taken from.

    Without a label column, the label comes from the score, as when the plugin imports such rows. A blank label is
    unknown whatever the score, because recall reads only the label (E-64).
    """
    score = row.get("importance")
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float | str)):
        raise UnusableInput(f"{at}: field 'importance': expected a number, found {json_type(score)}")
    if "importance_label" not in row:
        return resolve_label(None, score)
    if not label:
        counts["rows without a label, which count as unknown"] += 1
        return UNKNOWN
    if normal_label(label) is None:
        counts["labels unknown to the engine, replaced by that of the score"] += 1
    return resolve_label(label, score)


def _is_embedded(vector: Any) -> bool:
    """Return whether a row was stored with an embedding, given its vector or a flag."""
    return bool(any(vector)) if isinstance(vector, list) else bool(getattr(vector, "any", lambda: vector)())


def _assumed(name: str) -> str:
    """Return the note on rows without this field."""
    if name == "importance_label":
        return "label taken from the importance in rows without an importance_label"
    return f"{name} set to {DEFAULTS[name]} in rows without a {name}"


def _created(row: dict[str, Any], times: Times, at: str) -> int | None:
    """Return the time of a row in whole milliseconds (TI-1); None for null."""
    name = next((name for name in TIMES if name in row), TIMES[0])
    value = field(row, name, object, at)
    created = times.read(value)
    if created is None and value is not None:
        raise UnusableInput(f"{at}: field {name!r}: expected a time, found {json_type(value)}")
    return created


def _text_or_none(row: dict[str, Any], name: str, at: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(expect(value, str, f"{at}: field {name!r}"))


def _due(row: dict[str, Any], at: str) -> int | None:
    """Return ``due_at`` in milliseconds; None for null and for a row without it."""
    value = row.get(FIELD)
    due = None if value is None else read_due(value)
    if value is not None and due is None:
        raise UnusableInput(f"{at}: field {FIELD!r}: expected a date, a time or milliseconds")
    return due


def _export(path: Path) -> Iterator[tuple[Any, str]]:
    """Yield the rows of an export with their positions for messages."""
    if path.suffix.lower() != ".json":
        yield from ((row, f"{path}:{number}") for number, row in read_json_lines(path))
        return
    value = read_json(path)
    if isinstance(value, dict) and "docs" in value and "items" not in value:
        yield from rows_of(expect(value["docs"], list, f"{path}: docs"), str(path))
        return
    items: Sequence[Any] = expect(
        value["items"] if isinstance(value, dict) and "items" in value else value, list, str(path)
    )
    for number, row in enumerate(items):
        yield row, f"{path}: [{number}]"


def table_read(store: str, configs: Iterable[Path]) -> str:
    """Return the store with the table that the hosts of some configurations read, for :func:`read_stored`.

    A host's own openclaw.json may name it by ``tableName``. Raises :class:`UnusableInput` if a LanceDB folder has no
    such table, or if two configurations name different ones.
    """
    folder = Path(store)
    if is_address(store) or not folder.is_dir() or folder.suffix == _SUFFIX:
        return store
    named = {}
    for config in configs:
        value = read_value(config)
        if isinstance(value, Mapping) and "plugins" in value:
            named[table_in(value, str(config)) or TABLE] = config
    if len(named) > 1:
        names = " and ".join(f"{table!r} ({config})" for table, config in named.items())
        raise UnusableInput(f"{store}: tableName is {names}; name the folder of a table, as {folder / TABLE}{_SUFFIX}")
    for table, config in named.items():
        if table != TABLE and not (folder / f"{table}{_SUFFIX}").is_dir():
            raise UnusableInput(
                f"{store}: is not a LanceDB folder with a table {table!r}, which {config} names as tableName; to read "
                f"another table, name its folder, as {folder / TABLE}{_SUFFIX}"
            )
        return store if table == TABLE else str(folder / f"{table}{_SUFFIX}")
    return store


def _table(path: Path, *, vectors: bool) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the rows of the table in a LanceDB folder, in table order, with their positions for messages.

    A vector is replaced by whether it is not zero, unless ``vectors`` is set; null stays null.
    """
    folder, name = (path.parent, path.stem) if path.suffix == _SUFFIX else (path, TABLE)
    if not (folder / f"{name}{_SUFFIX}").is_dir():
        raise UnusableInput(f"{path}: is not a LanceDB folder with a table {name!r}")

    def read(table: Any) -> tuple[list[str], list[dict[str, Any]]]:
        names = table.schema.names
        missing = [name for name in REQUIRED if name not in names]
        missing += [] if any(name in names for name in TIMES) else [TIMES[0]]
        known = [name for name in (*REQUIRED, *TIMES, *DEFAULTS, *OPTIONAL, VECTOR) if name in names]
        return missing, [] if missing else _rows_of(table.search().select(known).to_batches(BATCH), vectors=vectors)

    missing, rows = in_table(folder, name, read, "; restore it from a backup, or give an export of it (.jsonl)")
    if missing:
        raise UnusableInput(f"{path}: table {name!r} has no column {', '.join(missing)}")
    for number, row in enumerate(rows, 1):
        yield row, f"{path}: row {number}"


def _rows_of(batches: Iterable[pa.RecordBatch], *, vectors: bool) -> list[dict[str, Any]]:
    """Return the rows of batches as :func:`_table` yields them."""
    rows: list[dict[str, Any]] = []
    for batch in map(without_arrow_times, batches):
        part = batch.drop_columns([VECTOR]).to_pylist() if VECTOR in batch.schema.names else batch.to_pylist()
        if VECTOR in batch.schema.names:
            for row, vector in zip(part, batch.column(VECTOR), strict=True):
                numbers = vector.values.to_numpy(zero_copy_only=False) if vector.is_valid else None
                row[VECTOR] = numbers if vectors or numbers is None else bool(numbers.any())
        rows += part
    return rows
