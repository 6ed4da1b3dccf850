"""Receipts on disk: one Parquet file a conversation, one row an arm and moment; timings in a file of their own.

Receipts are a function of the input alone, so two runs can be compared byte for byte. Memories appear by key and id,
never by text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.engine.js import js_length
from lab.errors import CannotMeasure
from lab.files import write_whole
from lab.replay.loop import Answered
from lab.systems.contract import Item

if TYPE_CHECKING:
    import pyarrow as pa

KIND, VERSION = "lab.receipts", "2"
ITEM_FIELDS = tuple(Item._fields)


def receipts_table(answers: Sequence[Answered]) -> pa.Table:
    """The receipts of one conversation, a row an answer.

    Columns ``arm, turn, seq, scope, recalls, probe, injected, visible, visible_nice, chars, hard_rules, hard_kept,
    pinned, duplicates, log, receipt``, and a list column ``item_…`` for each field of an item.
    """
    import orjson
    import pyarrow as pa

    offsets = [0]
    for answer in answers:
        offsets.append(offsets[-1] + len(answer.recall.items))
    flat = [item for answer in answers for item in answer.recall.items]
    columns = list(zip(*flat, strict=True)) if flat else [()] * len(ITEM_FIELDS)
    types = (
        pa.string(),
        pa.string(),
        pa.string(),
        pa.string(),
        pa.string(),
        pa.float64(),
        pa.int32(),
        pa.int32(),
        pa.string(),
    )
    where = pa.array(offsets, pa.int32())
    listed = {
        f"item_{name}": pa.ListArray.from_arrays(where, pa.array(column, kind))
        for name, column, kind in zip(ITEM_FIELDS, columns, types, strict=True)
    }
    table = pa.table(
        {
            "arm": pa.array([one.arm.name for one in answers], pa.string()),
            "turn": pa.array([one.moment.key for one in answers], pa.string()),
            "seq": pa.array([one.moment.seq for one in answers], pa.int32()),
            "scope": pa.array([one.scope for one in answers], pa.string()),
            "recalls": pa.array([one.moment.recalls for one in answers], pa.bool_()),
            "probe": pa.array([one.moment.probe.id if one.moment.probe else None for one in answers], pa.string()),
            "injected": pa.array([one.recall.injected for one in answers], pa.int32()),
            "visible": pa.array([one.visible for one in answers], pa.int32()),
            "visible_nice": pa.array([one.visible_nice for one in answers], pa.int32()),
            "chars": pa.array([js_length(one.recall.context) for one in answers], pa.int32()),
            "hard_rules": pa.array([one.hard_rules for one in answers], pa.int32()),
            "hard_kept": pa.array([one.hard_kept for one in answers], pa.int32()),
            "pinned": pa.array([list(one.recall.pinned) for one in answers], pa.list_(pa.string())),
            "duplicates": pa.array([one.recall.duplicates for one in answers], pa.int32()),
            **listed,
            "log": pa.array([list(one.recall.log) for one in answers], pa.list_(pa.string())),
            "receipt": pa.array(
                [orjson.dumps(one.recall.receipt).decode() for one in answers],
                pa.string(),
            ),
        }
    )
    return table.replace_schema_metadata({"kind": KIND, "schema_version": VERSION})


def latency_table(answers: Sequence[Answered]) -> pa.Table:
    """Columns ``arm, turn, stage, ns, cold``; cold is the first moment of the conversation."""
    import pyarrow as pa

    first = answers[0].moment.key if answers else None
    records = [
        (one.arm.name, one.moment.key, stage, spent, one.moment.key == first)
        for one in answers
        for stage, spent in one.recall.timings.items()
    ]
    columns = list(zip(*records, strict=True)) if records else [()] * 5
    names = ("arm", "turn", "stage", "ns", "cold")
    types = (pa.string(), pa.string(), pa.string(), pa.int64(), pa.bool_())
    table = pa.table({name: pa.array(column, kind) for name, column, kind in zip(names, columns, types, strict=True)})
    return table.replace_schema_metadata({"kind": "lab.latency", "schema_version": VERSION})


def table_bytes(table: pa.Table) -> bytes:
    """A table as a Parquet file; equal tables give equal bytes."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file whole or not at all."""
    write_whole(path, table_bytes(table))


def read_table(path: Path, columns: Sequence[str] | None = None) -> pa.Table:
    """Read a Parquet file of ours; a damaged one is :class:`CannotMeasure`."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        return parquet.read_table(path, columns=list(columns) if columns else None)
    except (pa.ArrowInvalid, OSError) as error:
        raise CannotMeasure(f"{path}: damaged ({error}); delete it and run the replay again") from None


def item(row: dict[str, Any], rank: int) -> Item:
    """The item at a rank (from 0) of a row read with ``to_pylist``."""
    return Item(*(row[f"item_{name}"][rank] for name in ITEM_FIELDS))
