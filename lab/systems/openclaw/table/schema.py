"""The table ``memories`` that tools write (E-1, E-94): its columns, those that the lab adds, and rows as Arrow.

:mod:`lab.memory.table.lance_table` keeps the table in LanceDB.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lab.base.errors import UnusableInput
from lab.recordings.model import GLOBAL
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import Near, is_hard_rule, normal_category, resolve_label
from lab.systems.plans import FIELD as DUE
from lab.systems.plans import utc_time

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Entry:
    """A row to write, with its vector: a list of numbers, all zero if it is stored without an embedding.

    ``source_kind`` and ``source_ref`` say where the text came from, ``lang`` is its language, ``media_refs`` and
    ``media_kind`` name files that belong to it; blank if unknown. ``due_at`` is when a plan is due, in epoch
    milliseconds (PL-3); None if it is none.
    """

    row: Row
    vector: Sequence[float]
    source_kind: str = ""
    source_ref: str = ""
    lang: str = ""
    media_refs: tuple[str, ...] = ()
    media_kind: str = ""
    due_at: int | None = None


class MemoryTable(Protocol):
    """Rows by id. A method returns after its change is on disk."""

    @property
    def read_only(self) -> bool:
        """Whether writes are refused."""
        ...

    def rows(self) -> Sequence[Row]:
        """Return all rows in table order, without the bootstrap row."""
        ...

    def add(self, entries: Sequence[Entry]) -> None:
        """Append rows; all of them or none. Raises ``UnusableInput`` if the table is read-only."""
        ...

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows by id; return how many there were."""
        ...

    def nearest(self, vector: Sequence[float], limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows nearest to a vector, in one scope or in all (None)."""
        ...

    def close(self) -> None:
        """Release the table."""
        ...


TABLE, VECTOR, BOOTSTRAP = "memories", "vector", "__schema__"
PLUGIN = ("id", "text", VECTOR, "createdAt", "category", "importance", "importance_label", "scope", "trust_tier")
# Without these a table cannot be read at all.
REQUIRED = ("id", "text", VECTOR, "createdAt")
# The columns that the lab adds, in the order in which a backfill adds them. ``media_refs`` is a JSON array, ``due_at``
# a time, or milliseconds where another program made the column.
ADDED = ("source_kind", "source_ref", "lang", "hard_rule", "media_refs", "media_kind", DUE)


def schema(dimension: int, added: Sequence[str] = ADDED) -> pa.Schema:
    """Return the schema of a new table.

    Every column may be null: the plugin appends rows without the added columns, which LanceDB refuses otherwise.
    """
    import pyarrow as pa

    kinds = {
        VECTOR: pa.list_(pa.float32(), dimension),
        "createdAt": pa.float64(),
        "importance": pa.float64(),
        "hard_rule": pa.bool_(),
    }
    return pa.schema([(name, kinds.get(name, pa.string())) for name in (*PLUGIN, *added)])


def dimension_of(given: pa.Schema, where: Path) -> int:
    """Return the length of the vectors of a table.

    Raises :class:`UnusableInput` if a column without which nothing can be read is missing or has another type.
    """
    import pyarrow as pa

    missing = [name for name in REQUIRED if name not in given.names]
    if missing:
        raise UnusableInput(f"{where}: table {TABLE!r} has no column {', '.join(missing)}; it is no table of memories")
    for name in (*PLUGIN, *ADDED):
        if name not in given.names or name == VECTOR:
            continue
        kind = given.field(name).type
        numeric = _is_numeric(kind)
        expected, fits = ("text", pa.types.is_string(kind) or pa.types.is_large_string(kind))
        if name in ("createdAt", "importance"):
            expected, fits = "numbers", numeric
        elif name == DUE:
            expected, fits = "text or numbers of 64 bits", fits or (numeric and kind.bit_width == 64)
        elif name == "hard_rule":
            expected, fits = "booleans", pa.types.is_boolean(kind)
        if not fits:
            raise UnusableInput(f"{where}: column {name!r} of table {TABLE!r} holds {kind}, not {expected}")
    vector = given.field(VECTOR).type
    if not pa.types.is_fixed_size_list(vector) or not pa.types.is_floating(vector.value_type):
        raise UnusableInput(f"{where}: column {VECTOR!r} of table {TABLE!r} holds {vector}, not vectors of one length")
    return int(vector.list_size)


def _is_numeric(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def require_writable(given: pa.Schema, where: Path) -> None:
    """Raise :class:`UnusableInput` unless the table has all columns of the plugin."""
    missing = [name for name in PLUGIN if name not in given.names]
    if missing:
        raise UnusableInput(
            f"{where}: table {TABLE!r} has no column {', '.join(missing)}, so it is not one of the engine and is only "
            "read; lab memory backfill adds them"
        )


def write_protected(folder: Path) -> Path | None:
    """Return the folder whose permissions forbid its owner to write to a table there; None if there is none.

    The operating system does not ask this of root, who would change an archived table by mistake. Of a folder that does
    not exist, the nearest one above it counts.
    """
    table = folder / f"{TABLE}.lance"
    parts = (folder, table, *(table / name for name in ("_versions", "_transactions", "data")))
    if not folder.exists():
        parts = (next(path for path in folder.absolute().parents if path.exists()),)
    return next((part for part in parts if part.is_dir() and not part.stat().st_mode & 0o200), None)


def arrow_of(entries: Sequence[Entry], target: pa.Schema, dimension: int, where: Path) -> pa.Table:
    """Return entries as Arrow with the columns of the table, in its order.

    Added columns that an older table lacks are left out. Raises :class:`UnusableInput` if a vector has another length,
    or numbers that are not finite.
    """
    import numpy as np
    import pyarrow as pa

    rows = [entry.row for entry in entries]
    vectors = np.zeros((len(entries), dimension), np.float32)
    for number, entry in enumerate(entries):
        if len(entry.vector) != dimension:
            raise UnusableInput(
                f"{where}: a vector of {len(entry.vector)} numbers does not fit the table, whose vectors have "
                f"{dimension}; use the embedder that the table was made with"
            )
        with np.errstate(over="ignore"):
            vectors[number] = entry.vector
    if not np.isfinite(vectors).all():
        raise UnusableInput(f"{where}: a vector holds a number that is not finite in 32 bits")
    values: dict[str, Any] = {
        "id": [row.id for row in rows],
        # UTF-8 cannot hold half a surrogate pair.
        "text": [row.text.encode("utf-8", "replace").decode() for row in rows],
        "createdAt": [float(row.created_at) for row in rows],
        "category": [row.category for row in rows],
        "importance": [row.importance for row in rows],
        "importance_label": [row.importance_label for row in rows],
        "scope": [row.scope for row in rows],
        "trust_tier": [row.trust_tier for row in rows],
        "source_kind": [entry.source_kind or None for entry in entries],
        "source_ref": [entry.source_ref or None for entry in entries],
        "lang": [entry.lang or None for entry in entries],
        "hard_rule": [row.hard_rule for row in rows],
        "media_refs": [json.dumps(entry.media_refs) if entry.media_refs else None for entry in entries],
        "media_kind": [entry.media_kind or None for entry in entries],
        DUE: [entry.due_at for entry in entries],
    }
    if DUE in target.names and not _is_numeric(target.field(DUE).type):
        values[DUE] = [None if due is None else utc_time(due) for due in values[DUE]]
    columns: list[pa.Array] = []
    for column in target:
        if column.name == VECTOR:
            flat = pa.array(vectors.ravel()).cast(column.type.value_type)
            columns.append(pa.FixedSizeListArray.from_arrays(flat, type=column.type))
        else:
            columns.append(
                pa.array(values.get(column.name, [None] * len(rows)), pa.string()).cast(column.type)
                if column.name not in values
                else pa.array(values[column.name], column.type)
            )
    return pa.Table.from_arrays(columns, schema=target)


def rows_of(batch: pa.RecordBatch | pa.Table, first: int) -> Iterable[Row]:
    """Yield the rows of a batch read without vectors, numbered from ``first``, without the bootstrap row.

    Missing values get the defaults of E-2. The batch has the column ``embedded`` if it is known.
    """
    for number, values in enumerate(batch.to_pylist(), first):
        if values["id"] == BOOTSTRAP:
            continue
        yield row_of(values, number)


def row_of(values: dict[str, Any], position: int | None = None) -> Row:
    """Return a stored row, read as the plugin reads it (E-1, E-2); a blank label is kept blank if there is a column."""
    identity, text = values["id"] or "", values["text"] or ""
    created, score = values["createdAt"], values.get("importance")
    score = float(score) if score is not None and math.isfinite(score) else None
    label = values.get("importance_label")
    return Row(
        identity,
        identity,
        text,
        text,
        math.floor(created) if created is not None and math.isfinite(created) else 0,
        normal_category(values.get("category")),
        resolve_label(label, score),
        values.get("scope") or GLOBAL,
        values.get("trust_tier") or "unknown",
        score,
        bool(values.get("hard_rule")) or is_hard_rule(text),
        position,
        bool(values.get("embedded", True)),
    )
