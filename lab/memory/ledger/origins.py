"""Which line of which log an observation came from (LD-10): a row of ``lab_origins`` for each batch of lines.

A row a batch takes about 2 bytes an observation; a row an observation would take 20.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from lab.memory.ledger.lines import Line


class Origin(NamedTuple):
    """A line of a source: its number from 1, its first byte and its length in bytes."""

    source_id: int
    line: int
    position: int
    length: int


def add(connection: sqlite3.Connection, source_id: int, ids: range, lines: Sequence[Line]) -> None:
    """Record the lines of a batch, which follow each other; ``ids`` are those of its observations, in order."""
    if ids:
        # Of each line the length, and in the lowest bit whether it is an observation.
        numbers = (line.length << 1 | (line.observation is not None) for line in lines)
        packed = zlib.compress(struct.pack(f"<{len(lines)}Q", *numbers))
        values = (ids[0], ids[-1], source_id, lines[0].number, lines[0].position, packed)
        connection.execute("INSERT INTO lab_origins VALUES (?, ?, ?, ?, ?, ?)", values)


def find(connection: sqlite3.Connection, observation_id: int) -> Origin | None:
    """Return where an observation comes from; None if another program inserted it."""
    row = connection.execute(
        "SELECT * FROM lab_origins WHERE first <= ? ORDER BY first DESC LIMIT 1", (observation_id,)
    ).fetchone()
    if row is None or observation_id > row[1]:
        return None
    identity, _, source_id, number, position, packed = row
    for (packed_length,) in struct.iter_unpack("<Q", zlib.decompress(packed)):
        length, is_observation = packed_length >> 1, packed_length & 1
        if is_observation and identity == observation_id:
            return Origin(source_id, number, position, length)
        identity += is_observation
        number += 1
        position += length
    return None
