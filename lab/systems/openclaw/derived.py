"""The rows that the engine derives from memories and stores by itself: its Working Sets (E-28)."""

from __future__ import annotations

from lab.retrieval.contract import Row
from lab.retrieval.retrievers import StoreRetriever
from lab.systems.contract import NOTHING, Stored, Writes
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.recall.turn import Turn


class DerivedRows:
    """The stored Working Sets of one conversation, and which of them were reported as writes.

    They are in the ``listing``, and in the ``table`` if the engine searches what it writes (None: no search returns
    them).
    """

    def __init__(self, listing: Listing, table: StoreRetriever | None) -> None:
        self._listing, self._table = listing, table
        self._stored: dict[str, Row] = {}
        self._changed: dict[str, Row] = {}
        self._reported: set[str] = set()

    def write(self, row: Row) -> None:
        """Store a row in place of the earlier one; outside a table, an equal text is not stored again."""
        before = self._stored.get(row.id)
        if before is not None:
            if self._table is None and before.text == row.text:
                return
            self._listing.remove(before)
        if self._table is not None:
            self._table.write([row])
        self._listing.add([row])
        self._stored[row.id] = self._changed[row.id] = row

    def writes(self, turn: Turn) -> Writes:
        """Return what a recall stored since the last call.

        A probe stores nothing in profile ``seed``. In the public plugin it does, which is not reported, because the
        next turn replaces it.
        """
        changed, self._changed = self._changed, {}
        if not turn.prompt.remembered:
            return NOTHING
        rows = turn.memories.by_id
        sources = tuple(rows[identity].key for identity in turn.synthesised if identity in rows)
        stored = [Stored(row.key, row.text, sources) for row in changed.values()]
        new = tuple(entry for entry in stored if entry.id not in self._reported)
        self._reported |= changed.keys()
        return Writes(new, tuple(entry for entry in stored if entry not in new))
