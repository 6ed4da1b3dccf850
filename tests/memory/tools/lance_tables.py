"""Tables of memories for tests: entries, and a table with the columns of the plugin only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.retrieval.contract import Row
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.systems.openclaw.table.schema import TABLE, Entry, arrow_of, schema

DIMENSION = 8


def uuid(number: int) -> str:
    """Return a UUID with this number."""
    return f"00000000-0000-4000-8000-{number:012d}"


def entry(number: int, text: str = "", scope: str = "global", **more: Any) -> Entry:
    """Return a memory whose vector points along one axis."""
    identity, text = uuid(number), text or f"memory number {number}"
    vector = [float(axis == number % DIMENSION) for axis in range(DIMENSION)]
    row = Row(identity, identity, text, text, 1_760_000_000_000 + number, "fact", "nice_to_have", scope, "user", 0.5)
    return Entry(row, vector, "tool", "memory_store", "en", **more)


def raw_table(folder: Path) -> Any:
    """Open the table as another program does, without the lab's lock."""
    with quiet_lance():
        return import_lancedb().connect(str(folder)).open_table(TABLE)


def plugin_table(folder: Path, *numbers: int, texts: tuple[str, ...] = ()) -> Any:
    """Make a table as the plugin does: its columns only, one commit a memory after the bootstrap row."""
    given = schema(DIMENSION, ())
    with quiet_lance():
        table = import_lancedb().connect(str(folder)).create_table(TABLE, schema=given)
        for at, number in enumerate(numbers):
            text = texts[at] if texts else ""
            table.add(arrow_of([entry(number, text)], given, DIMENSION, folder))
    return table
