"""The table of memories that tools write (E-1). :mod:`lab.memory.table.lance_table` keeps it in LanceDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from lab.retrieval.contract import Row


class Near(NamedTuple):
    """A row near a vector, with its squared L2 distance."""

    row: Row
    distance: float


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
