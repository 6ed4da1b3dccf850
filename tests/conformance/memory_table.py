"""A table of memories that is not stored, with exact distances: what the tools of the records ran on."""

from __future__ import annotations

from collections.abc import Sequence

from lab.base.errors import UnusableInput
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import Near
from lab.systems.openclaw.table.schema import Entry


class InMemoryTable:
    """Implements :class:`~lab.systems.openclaw.table.schema.MemoryTable`.

    Like the plugin's table it may hold an id twice; such rows are deleted together.
    """

    def __init__(self, entries: Sequence[Entry] = (), *, read_only: bool = False) -> None:
        self._entries = list(entries)
        self.read_only = read_only

    @property
    def entries(self) -> Sequence[Entry]:
        """The rows with their vectors, in table order."""
        return tuple(self._entries)

    def rows(self) -> Sequence[Row]:
        """Return all rows in table order."""
        return [entry.row for entry in self._entries]

    def add(self, entries: Sequence[Entry]) -> None:
        """Append rows. Raises ``UnusableInput`` if the table is read-only."""
        if self.read_only:
            raise UnusableInput("the table is read-only")
        self._entries += entries

    def delete(self, ids: Sequence[str]) -> int:
        """Delete rows by id; return how many there were."""
        gone = set(ids)
        kept = [entry for entry in self._entries if entry.row.id not in gone]
        deleted = len(self._entries) - len(kept)
        self._entries = kept
        return deleted

    def nearest(self, vector: Sequence[float], limit: int, scope: str | None = None) -> Sequence[Near]:
        """Return the rows nearest to a vector, in one scope or in all (None)."""
        import numpy as np

        query = np.asarray(vector, np.float32)
        near = [
            Near(entry.row, float(np.sum((np.asarray(entry.vector, np.float32) - query) ** 2)))
            for entry in self._entries
            if scope is None or entry.row.scope == scope
        ]
        return sorted(near, key=lambda found: found.distance)[:limit]

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
