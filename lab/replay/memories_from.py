"""The memories of a store in place of a recording's own: what an agent remembers, against what was said to it.

A store is the folder of the plugin's LanceDB, or an export of it (E-1, E-39). OpenClaw's own memory-lancedb keeps
a table of fewer columns: what is missing has a default, and a note says so. A table is opened to be read and nothing of
it is written. Texts are embedded anew, unless the vectors of the store are asked for; a row whose vector is zero or
empty, or null where other rows have vectors, was stored without an embedding. A memory's key is the id of its row. It
is visible at a turn if it was stored no later.

The order of the rows is part of a store: a LanceDB without an index answers in that order, and so breaks ties by it. An
export has the order of its lines, which the plugin writes by time: it is not that of the table.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.embedding.stored import StoredVectors, stored_vectors
from lab.errors import UnusableInput
from lab.files import digest, read_json, read_json_lines
from lab.golden.model import GoldenSet
from lab.recordings.model import UNKNOWN, Memory, Recording
from lab.recordings.readers import Library, check_probes
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.shape import expect, field, json_type
from lab.systems.openclaw.memory import normal_label, resolve_label
from lab.utf16 import has_lone_surrogate

if TYPE_CHECKING:
    import pyarrow as pa

TABLE, VECTOR = "memories", "vector"
REQUIRED = ("id", "text", "createdAt")
# What a row is taken to have where its table or line has no such field (E-2).
DEFAULTS = {"category": "other", "importance_label": "", "scope": "global", "trust_tier": "unknown"}
# The columns that every search of the plugin's recall names.
SEARCHED = ("importance_label", "scope")
NOT_SEARCHED = (
    "rows in which the plugin itself would find nothing until they are imported with memory_import, for its searches "
    "need importance_label and scope"
)
# The score may be absent (E-1); the flag is the lab's own (E-58).
OPTIONAL = ("importance", "hard_rule")
# Rows that are read at a time with their vectors.
BATCH = 1024
LAST_DATE = 8_640_000_000_000_000
NOT_EMBEDDED = (
    "rows stored without an embedding (zero vectors), which profile upstream ranks as the plugin does "
    "and profile seed embeds anew"
)
BOOTSTRAP, WORKING_SET = "__schema__", "working_set:"


class Stored(NamedTuple):
    """The memories of a store in the order of its rows, not yet placed in a conversation, and what was noticed.

    ``vectors`` are those that the store holds, where they were asked for; of rows without an embedding it has none.
    """

    memories: tuple[Memory, ...]
    notes: tuple[str, ...]
    vectors: StoredVectors | None = None


def read_stored(path: Path, *, vectors: bool = False) -> Stored:
    """Read a LanceDB folder, or an export: JSON Lines, or JSON where the name ends so; its ``vectors``, too, if asked.

    Raises :class:`UnusableInput` for what is not there, holds no such table, or holds rows of another form.
    """
    if not path.exists():
        raise UnusableInput(f"{path}: no such LanceDB folder or export file")
    reader = _Rows(path)
    held: dict[str, tuple[Any, str]] = {}
    for row, at in _table(path, vectors=vectors) if path.is_dir() else _export(path):
        reader.take(row, at)
        if vectors:
            held[row["id"]] = row.get(VECTOR), at
    reader.settle()
    if not reader.memories:
        raise UnusableInput(f"{path}: holds no memory that could be recalled")
    if path.is_dir() and any(reader.noticed[_assumed(name)] for name in SEARCHED):
        reader.noticed[NOT_SEARCHED] = len(reader.memories)
    memories = tuple(reader.memories)
    notes = tuple(f"{path}: {what}: {count}" for what, count in reader.noticed.items())
    if not vectors:
        return Stored(memories, notes)
    if all(vector is None for vector, _ in held.values()):
        raise UnusableInput(f"{path}: its rows hold no field {VECTOR!r}; --vectors stored takes a LanceDB folder")
    embedded = {memory.key: held[memory.key] for memory in memories if memory.embedded}
    if not embedded:
        raise UnusableInput(f"{path}: every vector is all zeros; replay without --vectors stored")
    return Stored(memories, notes, stored_vectors(path, embedded))


def with_stored(library: Library, stored: Stored) -> Library:
    """The same recordings with the memories of a store in place of their own.

    They stand in order of birth, then by key; each knows its place in the store. Raises :class:`UnusableInput` where
    the recordings' probes name memories that are gone.
    """
    notes = list(stored.notes)
    recordings = []
    rows = [replace(memory, place=place) for place, memory in enumerate(stored.memories)]
    rows.sort(key=lambda memory: (memory.created_at, memory.key))
    for recording in library.recordings:
        placed = tuple(_placed(memory, recording) for memory in rows)
        if recording.memories:
            notes.append(f"{recording.conversation}: its own {len(recording.memories)} memories are set aside")
        younger = sum(memory.visible_from > len(recording.turns) for memory in placed)
        if younger:
            notes.append(
                f"{recording.conversation}: {younger} of {len(placed)} memories were stored after its last turn, "
                "so no turn can recall them"
            )
        recordings.append(replace(recording, memories=placed))
    golden = GoldenSet(library.golden.probes, (*library.golden.notes, *notes))
    check_probes(recordings, golden.probes)
    identity = digest([astuple(memory) for memory in stored.memories])
    return replace(library, memories="stored", recordings=tuple(recordings), golden=golden, stored=identity)


def _placed(memory: Memory, recording: Recording) -> Memory:
    """The memory as this conversation sees it; one past the end where it is younger than any probe."""
    times = [turn.time_ms for turn in recording.turns]
    first = bisect_left(times, memory.created_at)
    # Probes from outside are asked a millisecond after the last turn.
    return replace(memory, visible_from=first + (first == len(times) and memory.created_at > times[-1] + 1))


class _Rows:
    """Turns rows into memories; counts what it had to decide."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memories: list[Memory] = []
        self.noticed: Counter[str] = Counter()
        self._ids: set[str] = set()
        self._holds_vectors = False
        self._null: list[int] = []

    def take(self, row: dict[str, Any], at: str) -> None:
        identity, text = field(row, "id", str, at), field(row, "text", str, at)
        if identity == BOOTSTRAP:
            return
        if not identity.strip():
            raise UnusableInput(f"{at}: field 'id' is blank")
        if has_lone_surrogate(identity):
            raise UnusableInput(f"{at}: id {identity!r} holds half a character (a lone surrogate); write it otherwise")
        if identity in self._ids:
            raise UnusableInput(f"{at}: id {identity!r} occurs twice; every row needs one of its own")
        self._ids.add(identity)
        values = {name: _text_or_none(row, name, at) for name in DEFAULTS}
        self.noticed.update(_assumed(name) for name in DEFAULTS if name not in row)
        created, label = _created(row, at), self._label(row, values["importance_label"], at)
        vector = row.get(VECTOR)
        embedded = vector is None or _is_embedded(vector)
        self._holds_vectors |= vector is not None
        flag = row.get("hard_rule")
        hard = flag is not None and expect(flag, bool, f"{at}: field 'hard_rule'")
        if identity.startswith(WORKING_SET):
            self.noticed["working-set rows, which the engine makes itself, kept out of the pool"] += 1
        elif not text.strip():
            self.noticed["rows without a text left out"] += 1
        else:
            if created is None:
                self.noticed["rows without a time, taken to be there from the start"] += 1
            if not embedded:
                self.noticed[NOT_EMBEDDED] += 1
            elif vector is None and VECTOR in row:
                self._null.append(len(self.memories))
            self.memories.append(
                Memory(
                    identity,
                    text,
                    text,
                    visible_from=0,
                    created_at=created or 0,
                    category=values["category"] or DEFAULTS["category"],
                    scope=values["scope"] or DEFAULTS["scope"],
                    label=label,
                    trust=values["trust_tier"] or DEFAULTS["trust_tier"],
                    hard_rule=hard,
                    embedded=embedded,
                )
            )

    def settle(self) -> None:
        """Count rows whose vector is null as stored without an embedding, where other rows have vectors."""
        if self._holds_vectors and self._null:
            self.noticed[NOT_EMBEDDED] += len(self._null)
            for place in self._null:
                self.memories[place] = replace(self.memories[place], embedded=False)

    def _label(self, row: dict[str, Any], label: str | None, at: str) -> str:
        """The label of a row.

        One that the table has no column for comes from the score, as where the plugin imports such rows. One that is
        blank is unknown, whatever the score: recall looks at the label alone (E-64).
        """
        score = row.get("importance")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float | str)):
            raise UnusableInput(f"{at}: field 'importance': expected a number, found {json_type(score)}")
        if "importance_label" not in row:
            return resolve_label(None, score)
        if not label:
            self.noticed["rows without a label, which count as unknown"] += 1
            return UNKNOWN
        if normal_label(label) is None:
            self.noticed["labels that the engine does not know, replaced by that of the score"] += 1
        return resolve_label(label, score)


def _is_embedded(vector: Any) -> bool:
    """Return whether a row was stored with an embedding, given its vector or a flag."""
    return bool(any(vector)) if isinstance(vector, list) else bool(getattr(vector, "any", lambda: vector)())


def _assumed(name: str) -> str:
    """The note on rows that have no such field."""
    if name == "importance_label":
        return "label taken from the importance in rows without an importance_label"
    return f"{name} taken to be {DEFAULTS[name]} in rows without a {name}"


def _text_or_none(row: dict[str, Any], name: str, at: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(expect(value, str, f"{at}: field {name!r}"))


def _created(row: dict[str, Any], at: str) -> int | None:
    """``createdAt`` in whole milliseconds; None where there is none."""
    value = field(row, "createdAt", object, at)
    if value is None:
        return None
    # Beyond it no date exists in JavaScript, and NaN is not within it.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LAST_DATE:
        raise UnusableInput(f"{at}: field 'createdAt': expected milliseconds since 1970, found {json_type(value)}")
    return math.floor(value)


def _export(path: Path) -> Iterator[tuple[dict[str, Any], str]]:
    """The objects of an export and where each stands."""
    if path.suffix.lower() != ".json":
        yield from ((row, f"{path}:{number}") for number, row in read_json_lines(path))
        return
    value = read_json(path)
    items: Sequence[Any] = expect(
        value["items"] if isinstance(value, dict) and "items" in value else value, list, str(path)
    )
    for number, row in enumerate(items):
        yield expect(row, dict, f"{path}: [{number}]"), f"{path}: [{number}]"


def _table(path: Path, *, vectors: bool) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of the table in a LanceDB folder, in its order, and where each stands.

    In the place of a vector stands False where it is zero, else True; with ``vectors`` the vector itself. Null stays.
    """
    if not (path / f"{TABLE}.lance").is_dir():
        within = f"; give the folder that holds it, {path.parent}" if path.name == f"{TABLE}.lance" else ""
        raise UnusableInput(f"{path}: is no LanceDB folder with a table {TABLE!r}{within}")
    lancedb = import_lancedb()
    try:
        with quiet_lance():
            table = lancedb.connect(str(path)).open_table(TABLE)
            names = table.schema.names
            missing = [name for name in REQUIRED if name not in names]
            known = [name for name in (*REQUIRED, *DEFAULTS, *OPTIONAL, VECTOR) if name in names]
            rows = [] if missing else _rows_of(table.search().select(known).to_batches(BATCH), vectors=vectors)
    except Exception as error:
        # LanceDB's own words name files within and lines of its source; its kind of error is all that helps.
        raise UnusableInput(
            f"{path}: table {TABLE!r} cannot be read ({type(error).__name__}): it is damaged, or a newer LanceDB wrote "
            "it; restore it from a backup, or give an export of it (.jsonl)"
        ) from error
    if missing:
        raise UnusableInput(f"{path}: table {TABLE!r} has no column {', '.join(missing)}")
    for number, row in enumerate(rows, 1):
        yield row, f"{path}: row {number}"


def _rows_of(batches: Iterable[pa.RecordBatch], *, vectors: bool) -> list[dict[str, Any]]:
    """The rows of some batches; see :func:`_table`. The vector of a row that has none is None."""
    rows: list[dict[str, Any]] = []
    for batch in batches:
        some = batch.drop_columns([VECTOR]).to_pylist() if VECTOR in batch.schema.names else batch.to_pylist()
        if VECTOR in batch.schema.names:
            for row, vector in zip(some, batch.column(VECTOR), strict=True):
                held = vector.values.to_numpy(zero_copy_only=False) if vector.is_valid else None
                row[VECTOR] = held if vectors or held is None else bool(held.any())
        rows += some
    return rows
