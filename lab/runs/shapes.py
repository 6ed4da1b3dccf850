"""What the columns of a run's tables hold, so that a table of another shape is refused before anything is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_TEXT, _COUNT, _FLAG = "string", "int32", "bool"
_RECEIPTS = {
    **dict.fromkeys(("arm", "turn", "scope", "probe", "status", "failure", "receipt", "block"), _TEXT),
    **dict.fromkeys(("seq", "injected", "visible", "visible_nice", "chars", "hard_rules", "hard_kept"), _COUNT),
    **dict.fromkeys(("duplicates", "tokens", "evicted", "future", "duplicate_items", "unescaped"), _COUNT),
    **dict.fromkeys(("superseded", "stale", "outdated"), _COUNT),
    "is_recall_turn": _FLAG,
    **dict.fromkeys(("pinned", "log"), f"list of {_TEXT}"),
    **{f"item_{name}": f"list of {_TEXT}" for name in ("key", "id", "tier", "label", "scope", "decision")},
    "item_score": "list of double",
    **dict.fromkeys(("item_fts_rank", "item_vec_rank"), f"list of {_COUNT}"),
}
_LATENCY = {"arm": _TEXT, "turn": _TEXT, "stage": _TEXT, "ns": "int64", "cold": _FLAG}
_WRITES = {
    **dict.fromkeys(("arm", "turn", "what", "id", "memory", "rule"), _TEXT),
    **dict.fromkeys(("seq", "chars"), _COUNT),
    "sources": f"list of {_TEXT}",
    "echo": _FLAG,
    "score": "double",
}
_SCORES = {**dict.fromkeys(("arm", "conversation", "at", "measure", "slices"), _TEXT), "value": "double"}
_TREND = {
    **dict.fromkeys(("date", "plan", "set", "arm", "measure", "verdict", "lab", "commit", "code"), _TEXT),
    **dict.fromkeys(("versions", "arm_key", "comparable_key"), _TEXT),
    **dict.fromkeys(("n", "conversations"), _COUNT),
    **dict.fromkeys(("mean", "standard_error"), "double"),
    "primary": "int8",
}
# By the kind that a table's metadata names.
COLUMNS = {
    b"lab.receipts": _RECEIPTS,
    b"lab.latency": _LATENCY,
    b"lab.writes": _WRITES,
    b"lab.scores": _SCORES,
    b"lab.trend": _TREND,
}
_MAY_BE_NULL = {"probe", "failure", "duplicates", "evicted", "memory", "rule", "score", "value", "slices"}
_MAY_BE_NULL |= {"standard_error", "commit", "code"}


def misshapen(table: pa.Table) -> str | None:
    """What is wrong with the columns of a table that were read, in a few words; None where nothing is.

    Checked are types, nulls, that the lists of a row's items are equally long, and that it injects no more of them.
    Tables of a kind without an entry in :data:`COLUMNS`, and columns without one, are taken as they are.
    """
    known = COLUMNS.get((table.schema.metadata or {}).get(b"kind", b""), {})
    lengths = None
    for name in table.column_names:
        column = table[name]
        if name not in known:
            continue
        if _kind(column.type) != known[name]:
            return f"column {name} holds {_kind(column.type)}, not {known[name]}"
        if column.null_count and name not in _MAY_BE_NULL:
            return f"column {name} has {column.null_count} empty cells"
        if name.startswith("item_"):
            own = _lengths(column)
            if lengths is not None and not own.equals(lengths):
                return f"column {name} lists another number of items than the columns before it"
            lengths = own
    if lengths is not None and "injected" in known and "injected" in table.column_names:
        from lab.columns import numbers_of

        injected, listed = numbers_of(table["injected"]), numbers_of(lengths)
        if ((injected < 0) | (injected > listed)).any():
            return "a row injects more items than it lists, or fewer than none"
    return None


def _lengths(column: pa.ChunkedArray) -> pa.Array:
    import numpy as np

    from lab.columns import lists_of, numbers

    return numbers(np.diff(lists_of(column)[1]), "int64")


def _kind(found: pa.DataType) -> str:
    """A type in the words of :data:`COLUMNS`: codes count as what they stand for."""
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        return _kind(found.value_type)
    if pa.types.is_list(found):
        return f"list of {_kind(found.value_type)}"
    return str(found)
