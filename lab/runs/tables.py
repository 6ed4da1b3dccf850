"""The tables of a run: Parquet files that are written atomically, and what measures read of them.

A table is refused before it is used if it has other columns than this version's. A damaged file is named.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from lab.base.errors import CannotMeasure
from lab.base.files import write_atomically

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT, _COUNT, _FLAG = "string", "int32", "bool"
# Groups of the columns of receipts; :func:`lab.replay.receipts.receipts_table` says what each column is.
SAFETY = ("future", "duplicate_items", "unescaped", "superseded", "stale", "outdated")
# On the block before and on the receipt; the first turn has not all of them.
READINGS = ("prefix_tokens", "stable_chars", "body_chars", "receipt_bytes", "receipt_lines", "to_explain", "explained")
# Only in receipts of conversations whose golden set has answers.
ANSWER_SHARE = "answer_share"
# Of one listed item. In receipts each is a list, with ``item_`` before its name.
ITEMS = {
    **dict.fromkeys(("key", "id", "tier", "label", "scope"), _TEXT),
    "score": "double",
    "fts_rank": _COUNT,
    "vec_rank": _COUNT,
    "decision": _TEXT,
}
_RECEIPTS = {
    **dict.fromkeys(("arm", "turn", "scope", "probe", "status", "failure", "receipt", "block"), _TEXT),
    **dict.fromkeys(("seq", "injected", "visible", "visible_nice", "chars", "hard_rules", "hard_kept"), _COUNT),
    **dict.fromkeys(("duplicates", "tokens", "evicted", *SAFETY, *READINGS), _COUNT),
    "is_recall_turn": _FLAG,
    ANSWER_SHARE: "double",
    **dict.fromkeys(("pinned", "log"), f"list of {_TEXT}"),
    **{f"item_{name}": f"list of {kind}" for name, kind in {**ITEMS, "exempt": _TEXT}.items()},
}
_LATENCY = {"arm": _TEXT, "turn": _TEXT, "stage": _TEXT, "ns": "int64", "cold": _FLAG}
_WRITES = {
    **dict.fromkeys(("arm", "turn", "what", "id", "memory", "rule", "receipt"), _TEXT),
    **dict.fromkeys(("seq", "chars"), _COUNT),
    "sources": f"list of {_TEXT}",
    **dict.fromkeys(("echo", "gold", "again", "leak", "derived"), _FLAG),
    "score": "double",
    "keep": "int8",
}
_SCORES = {**dict.fromkeys(("arm", "conversation", "at", "measure", "slices"), _TEXT), "value": "double"}
_TREND = {
    **dict.fromkeys(("date", "plan", "set", "arm", "measure", "verdict", "lab", "commit", "code"), _TEXT),
    **dict.fromkeys(("versions", "arm_key", "comparable_key"), _TEXT),
    **dict.fromkeys(("n", "conversations"), _COUNT),
    **dict.fromkeys(("mean", "standard_error"), "double"),
    "primary": "int8",
}
# By the ``kind`` in a table's metadata.
COLUMNS = {
    b"lab.receipts": _RECEIPTS,
    b"lab.studies.latency": _LATENCY,
    b"lab.writes": _WRITES,
    b"lab.scores": _SCORES,
    b"lab.trend": _TREND,
}
_MAY_BE_NULL = {"probe", "failure", "duplicates", "evicted", "memory", "rule", "score", "value", "slices", "keep"}
_MAY_BE_NULL |= {"standard_error", "commit", "code", ANSWER_SHARE, *READINGS}


def misshapen(table: pa.Table) -> str | None:
    """Return the first problem with the columns of a table; None if there is none.

    Checks types, nulls, that the item lists of a row have equal lengths, and that a row injects no more items than it
    lists. Kinds and columns without an entry in :data:`COLUMNS` are not checked.
    """
    known = COLUMNS.get((table.schema.metadata or {}).get(b"kind", b""), {})
    lengths = None
    for name in table.column_names:
        column = table[name]
        if name not in known:
            continue
        if _kind(column.type) != known[name]:
            return f"column {name} holds {_kind(column.type)}, not {known[name]}"
        if column.null_count and name not in _MAY_BE_NULL and not (known is _WRITES and name == "receipt"):
            return f"column {name} has {column.null_count} empty cells"
        if name.startswith("item_"):
            own_lengths = _lengths(column)
            if lengths is not None and not own_lengths.equals(lengths):
                return f"column {name} lists another number of items than the columns before it"
            lengths = own_lengths
    if lengths is not None and "injected" in known and "injected" in table.column_names:
        from lab.base.columns import numbers_of

        injected, listed = numbers_of(table["injected"]), numbers_of(lengths)
        if ((injected < 0) | (injected > listed)).any():
            return "a row injects more items than it lists, or a negative number"
    return None


def _lengths(column: pa.ChunkedArray) -> pa.Array:
    import numpy as np

    from lab.base.columns import lists_of, numbers

    return numbers(np.diff(lists_of(column)[1]), "int64")


def _kind(type_: pa.DataType) -> str:
    """Return the name of a type as in :data:`COLUMNS`; a dictionary has the type of its values."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return _kind(type_.value_type)
    if pa.types.is_list(type_):
        return f"list of {_kind(type_.value_type)}"
    return str(type_)


def table_of(rows: Iterable[Sequence[object]], types: Mapping[str, pa.DataType]) -> pa.Table:
    """Return a table of rows, whose values are in the order of ``types``, the type of each column by its name."""
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    return pa.table({name: pa.array(column, kind) for (name, kind), column in zip(types.items(), columns, strict=True)})


def write_points(
    kind: type[NamedTuple], points: Sequence[NamedTuple], path: Path, /, *, wide: Collection[str] = (), **about: str
) -> pa.Table:
    """Write records of a ``kind`` as Parquet, one row each, and return the table.

    A column has the name and the type of its field; whole numbers have 32 bits, those of ``wide`` fields 64. ``about``
    is the table's metadata.
    """
    import pyarrow as pa

    types = {str: pa.string(), float: pa.float64(), int: pa.int32(), bool: pa.bool_()}
    fields = {
        name: next(types[each] for each in (get_args(hint) or (hint,)) if each in types)
        for name, hint in get_type_hints(kind).items()
    }
    table = table_of(points, fields | dict.fromkeys(wide, pa.int64()))
    if about:
        table = table.replace_schema_metadata(about)
    write_table(table, path)
    return table


def table_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of a Parquet file; equal tables give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table to a Parquet file atomically."""
    write_atomically(path, table_bytes(table))


def read_table(path: Path, columns: Sequence[str] | None = None, coded: Sequence[str] = ()) -> pa.Table:
    """Read a Parquet file that the lab wrote, all of it or some ``columns``; :data:`ANSWER_SHARE` may be missing.

    Texts of ``coded`` columns, or of the lists in them, are dictionary-encoded where possible. Raises
    :class:`CannotMeasure` for a damaged or :func:`misshapen` file, and for one that lacks a column.
    """
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        metadata = parquet.read_metadata(path)
        leaves = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
        held = {leaf.split(".")[0] for leaf in leaves}
        missing = sorted({*(columns or ())} - held - {ANSWER_SHARE})
        if missing:
            raise CannotMeasure(f"{path}: has no {', '.join(missing)}; delete it and run the replay again")
        as_codes = [leaf for leaf in leaves if leaf.split(".")[0] in coded]
        names = [name for name in columns if name in held or name != ANSWER_SHARE] if columns else None
        try:
            table = _read(path, metadata, as_codes, names)
        except pa.ArrowNotImplementedError:
            # Lists of text in several chunks cannot be dictionary-encoded.
            table = _read(path, metadata, [], names)
        table.validate(full=True)
        problem = misshapen(table)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        # Pyarrow raises these for a damaged file, OSError without a number of the operating system's.
        if isinstance(error, OSError) and error.errno:
            raise CannotMeasure(f"{path}: cannot be read ({os.strerror(error.errno)})") from None
        problem = str(error)
    if problem:
        raise CannotMeasure(f"{path}: damaged ({problem}); delete it and run the replay again")
    return table


def _read(path: Path, metadata: Any, as_codes: list[str], columns: list[str] | None) -> pa.Table:
    import pyarrow.parquet as parquet

    # Not parquet.read_table, which loads pandas.
    with parquet.ParquetFile(path, metadata=metadata, read_dictionary=as_codes) as file:
        return file.read(columns=columns)
