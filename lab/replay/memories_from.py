"""The memories of a store in place of a recording's own: what an agent remembers, against what was said to it.

A store is the folder of the plugin's LanceDB, or an export of it (spec 0.2, 11.4). A table is opened to be read and
nothing of it is written. Its vectors are read where they are asked for; else texts are embedded anew. A memory's key is
the id of its row. It is visible at a turn if it was stored no later.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, NamedTuple

from lab.embedding.stored import StoredVectors, stored_vectors
from lab.engine.memory import UNKNOWN, normal_label, resolve_label
from lab.engine.store.quiet import import_lancedb, quiet_lance
from lab.errors import UnusableInput
from lab.files import digest, read_json, read_json_lines
from lab.golden.model import GoldenSet
from lab.recordings.model import Memory, Recording
from lab.recordings.readers import Library, check_probes
from lab.shape import expect, field, named

TABLE, VECTOR = "memories", "vector"
FIELDS = ("id", "text", "category", "importance_label", "scope", "trust_tier", "createdAt")
# The score may be absent (spec 0.2); the flag is the lab's own (spec 16.5).
OPTIONAL = ("importance", "hard_rule")
LAST_DATE = 8_640_000_000_000_000
BOOTSTRAP, WORKING_SET = "__schema__", "working_set:"


class Stored(NamedTuple):
    """The memories of a store, oldest first and by id, not yet placed in a conversation, and what was noticed.

    ``vectors`` are those that the store holds, where they were asked for.
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
    memories = tuple(sorted(reader.memories, key=lambda memory: (memory.created_at, memory.key)))
    if not memories:
        raise UnusableInput(f"{path}: holds no memory that could be recalled")
    notes = tuple(f"{path}: {what}: {count}" for what, count in reader.noticed.items())
    if not vectors:
        return Stored(memories, notes)
    if all(vector is None for vector, _ in held.values()):
        raise UnusableInput(f"{path}: its rows hold no field {VECTOR!r}; --vectors stored takes a LanceDB folder")
    found = stored_vectors(path, {memory.key: held[memory.key] for memory in memories})
    if zeros := len(memories) - len(found.embedded(list(found.rows))):
        notes = (*notes, f"{path}: rows stored without an embedding, whose vector is all zeros: {zeros}")
    return Stored(memories, notes, found)


def with_stored(library: Library, stored: Stored) -> Library:
    """The same recordings with the memories of a store in place of their own.

    Raises :class:`UnusableInput` where the recordings' probes name memories that are gone.
    """
    notes = list(stored.notes)
    recordings = []
    for recording in library.recordings:
        placed = tuple(_placed(memory, recording) for memory in stored.memories)
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

    def take(self, row: dict[str, Any], at: str) -> None:
        identity, text = field(row, "id", str, at), field(row, "text", str, at)
        if identity == BOOTSTRAP:
            return
        if not identity.strip():
            raise UnusableInput(f"{at}: field 'id' is blank")
        if identity in self._ids:
            raise UnusableInput(f"{at}: id {identity!r} occurs twice; every row needs one of its own")
        self._ids.add(identity)
        values = {name: _text_or_none(row, name, at) for name in FIELDS[2:6]}
        self.noticed.update(f"rows without a {name}" for name in FIELDS[2:6] if name not in row)
        created, label = _created(row, at), self._label(row, values["importance_label"], at)
        flag = row.get("hard_rule")
        hard = flag is not None and expect(flag, bool, f"{at}: field 'hard_rule'")
        if identity.startswith(WORKING_SET):
            self.noticed["working-set rows, which the engine makes itself, kept out of the pool"] += 1
        elif not text.strip():
            self.noticed["rows without a text left out"] += 1
        else:
            if created is None:
                self.noticed["rows without a time, taken to be there from the start"] += 1
            self.memories.append(
                Memory(
                    identity,
                    text,
                    text,
                    visible_from=0,
                    created_at=created or 0,
                    category=values["category"] or "other",
                    scope=values["scope"] or "global",
                    label=label,
                    trust=values["trust_tier"] or "unknown",
                    hard_rule=hard,
                )
            )

    def _label(self, row: dict[str, Any], label: str | None, at: str) -> str:
        """A row without a label is unknown, whatever its score: recall looks at the label alone (spec 20.17)."""
        score = row.get("importance")
        if score is not None and (isinstance(score, bool) or not isinstance(score, int | float | str)):
            raise UnusableInput(f"{at}: field 'importance': expected a number, found {named(score)}")
        if not label:
            self.noticed["rows without a label, which count as unknown"] += 1
            return UNKNOWN
        if normal_label(label) is None:
            self.noticed["labels that the engine does not know, replaced by that of the score"] += 1
        return resolve_label(label, score)


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
        raise UnusableInput(f"{at}: field 'createdAt': expected milliseconds since 1970, found {named(value)}")
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


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _table(path: Path, *, vectors: bool = False) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of the table in a LanceDB folder; with their ``vectors``, as arrays, only if asked."""
    if not (path / f"{TABLE}.lance").is_dir():
        within = f"; give the folder that holds it, {path.parent}" if path.name == f"{TABLE}.lance" else ""
        raise UnusableInput(f"{path}: is no LanceDB folder with a table {TABLE!r}{within}")
    lancedb = import_lancedb()
    try:
        with quiet_lance():
            table = lancedb.connect(str(path)).open_table(TABLE)
            names = table.schema.names
            missing = [name for name in FIELDS if name not in names]
            wanted = (*FIELDS, *OPTIONAL, *([VECTOR] if vectors else []))
            known = [name for name in wanted if name in names]
            rows = [] if missing else _rows_of(table.search().select(known).to_arrow())
    except Exception as error:
        raise UnusableInput(f"{path}: table {TABLE!r} cannot be read: {_first_line(error)}") from error
    if missing:
        raise UnusableInput(f"{path}: table {TABLE!r} has no column {', '.join(missing)}")
    for number, row in enumerate(rows, 1):
        yield row, f"{path}: row {number}"


def _rows_of(table: Any) -> list[dict[str, Any]]:
    """The rows of an Arrow table; a vector stays an array of numbers, None where it is null."""
    if VECTOR not in table.column_names:
        return list(table.to_pylist())
    column = table.column(VECTOR)
    rows = table.drop_columns([VECTOR]).to_pylist()
    for row, vector in zip(rows, column, strict=True):
        row[VECTOR] = vector.values.to_numpy(zero_copy_only=False) if vector.is_valid else None
    return list(rows)
