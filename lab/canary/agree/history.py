"""The store of a live engine as it was at each recall: rows that were deleted since, and rows that it saw late.

LanceDB keeps the versions of a table until they are compacted away. An engine may read through an old handle: on
OpenClaw 2026.6.11 new memories are found only minutes after they were stored, when the plugin is loaded anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.base.columns import numbers
from lab.base.times import epoch_ms
from lab.canary.agree.logged import Logged
from lab.replay.memories_from import DELETED, VISIBLE, WORKING_SET
from lab.retrieval.quiet import import_lancedb, in_table, quiet_lance
from lab.systems.openclaw.table.schema import BOOTSTRAP, TABLE, VECTOR

if TYPE_CHECKING:
    import pyarrow as pa

# Lists of a receipt that name memories of the store.
_LISTS = ("ftsTop", "vecTop", "whyTheseIds")


def deleted_rows(store: Path, table: str = TABLE) -> tuple[pa.Table | None, str | None]:
    """Return the rows that a table held at an earlier version, with the time as ``deletedAt``, and what is unknown.

    Every version with fewer rows than the one before is looked into. The first result is None if no row is gone.
    """
    import pyarrow as pa

    with quiet_lance():
        opened = import_lancedb().connect(str(store)).open_table(table)
        versions = sorted(opened.list_versions(), key=lambda one: one["version"])
        here = set(opened.search().select(["id"]).to_arrow()["id"].to_pylist())
        rows = [int(one["metadata"]["total_rows"]) for one in versions]
        parts = []
        for before, after, more, fewer in zip(versions, versions[1:], rows, rows[1:], strict=False):
            if fewer >= more:
                continue
            opened.checkout(after["version"])
            kept = set(opened.search().select(["id"]).to_arrow()["id"].to_pylist())
            opened.checkout(before["version"])
            found = opened.to_arrow()
            passed = kept | here | {BOOTSTRAP}
            gone = [one not in passed for one in found["id"].to_pylist()]
            if any(gone):
                part = found.filter(pa.array(gone))
                # A time without a zone is this machine's.
                at = float(1000 * after["timestamp"].timestamp())
                parts.append(part.append_column(DELETED, pa.array([at] * part.num_rows, pa.float64())))
    note = None
    if versions and versions[0]["version"] > 1:
        since = versions[0]["timestamp"].astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
        note = f"{store}: its older versions were compacted away; what was deleted before {since} is unknown"
    return (pa.concat_tables(parts, promote_options="default") if parts else None), note


def seen_late(recalls: Sequence[Logged], created: Mapping[str, int]) -> dict[str, int]:
    """Return when an engine with an old handle saw each memory, in epoch ms, as its receipts show; by id.

    ``recalls`` are in order of time, and ``created`` has the times at which memories were stored. The handle is as new
    as the newest memory that a recall lists: at a recall that lists a newer one, it was opened anew, so that everything
    stored until then is seen. What no recall can have seen is left out.
    """
    waiting = sorted(created.items(), key=lambda pair: (pair[1], pair[0]))
    newest, at, seen = -1, 0, dict[str, int]()
    for one in recalls:
        listed = (entry["id"] for name in _LISTS for entry in one.receipt.get(name, ()))
        if max((created[name] for name in listed if name in created), default=-1) <= newest:
            continue
        newest = one.time_ms
        while at < len(waiting) and waiting[at][1] <= newest:
            seen[waiting[at][0]] = one.time_ms
            at += 1
    return seen


def has_grown(before: Path, now: Path) -> bool:
    """Return whether a store has the vectors that an earlier copy of it has, and the same rows that are no memories.

    Rows may have been added and deleted. False if there is no such copy.
    """
    if before == now or not before.is_dir():
        return before == now
    older, newer = (in_table(store, TABLE, lambda table: table.to_arrow()) for store in (before, now))
    at = {name: row for row, name in enumerate(newer["id"].to_pylist())}
    shared = [(row, at[name]) for row, name in enumerate(older["id"].to_pylist()) if name in at]
    mine, theirs = (numbers([pair[side] for pair in shared], "int64") for side in (0, 1))
    return _others(older) == _others(newer) and older[VECTOR].take(mine).equals(newer[VECTOR].take(theirs))


def _others(rows: pa.Table) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows of a table that are no memories, with their numbers and without their vectors."""
    texts = zip(rows["id"].to_pylist(), rows["text"].to_pylist(), strict=True)
    found = [row for row, (name, text) in enumerate(texts) if name.startswith(WORKING_SET) or not (text or "").strip()]
    return list(zip(found, rows.drop_columns([VECTOR]).take(numbers(found, "int64")).to_pylist(), strict=True))


def created_in(table: pa.Table) -> dict[str, int]:
    """Return the time at which each row of a table was stored, in epoch ms, by id."""
    pairs = zip(table["id"].to_pylist(), table["createdAt"].to_pylist(), strict=True)
    return {name: at for name, value in pairs if (at := epoch_ms(value)) is not None}


def write_store(folder: Path, rows: pa.Table, gone: pa.Table | None, late: Mapping[str, int] | None) -> Path:
    """Write a LanceDB folder with the rows of a table over time; return the folder.

    ``gone`` are rows with ``deletedAt``. With ``late``, every row has the time in ``visibleAt`` from which it is seen;
    one that is not in it is never seen and left out.
    """
    import pyarrow as pa

    whole = pa.concat_tables([rows, gone], promote_options="default") if gone is not None else rows
    if late is not None:
        ids = whole["id"].to_pylist()
        whole = whole.append_column(VISIBLE, pa.array([late.get(name) for name in ids], pa.float64()))
        whole = whole.filter(pa.array([name in late for name in ids]))
    with quiet_lance():
        import_lancedb().connect(str(folder)).create_table(TABLE, whole, mode="overwrite")
    return folder
