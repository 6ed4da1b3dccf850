"""Rows by scope and category, newest first: the source of a Working Set (E-27)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter

from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row, TablePositions

_Entry = tuple[tuple[float, str], int, Row]
_Stored = tuple[tuple[int, int], Row]


class Listing:
    """An index of rows by scope and category. A row keeps its number, its index in the order of adding."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str | None, str], list[_Entry]] = {}
        self._stored: dict[tuple[str | None, str], list[_Stored]] = {}
        self._positions = TablePositions()
        self._hard: dict[str | None, list[Row]] = {}
        self._count = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Add rows in the order in which they become visible."""
        entries = [((-row.created_at, id_order(row.id)), number, row) for number, row in enumerate(rows, self._count)]
        for _, number, row in entries:
            stored = ((self._positions.next(row), number), row)
            for scope in (row.scope, None):
                insort(self._stored.setdefault((scope, row.category), []), stored, key=itemgetter(0))
                if row.hard_rule:
                    insort(self._hard.setdefault(scope, []), row, key=lambda rule: (rule.created_at, id_order(rule.id)))
        # Insert newest first, so that each entry is inserted after the one before and none has to be moved.
        for entry in sorted(entries, key=itemgetter(0, 1)):
            for scope in (entry[2].scope, None):
                insort(self._newest.setdefault((scope, entry[2].category), []), entry, key=itemgetter(0, 1))
        self._count += len(entries)

    def remove(self, row: Row) -> None:
        """Remove a row that was deleted or replaced."""
        for scope in (row.scope, None):
            key = (scope, row.category)
            self._newest[key] = [entry for entry in self._newest[key] if entry[2].id != row.id]
            self._stored[key] = [entry for entry in self._stored[key] if entry[1].id != row.id]
            self._hard[scope] = [rule for rule in self._hard.get(scope, ()) if rule.id != row.id]

    def recent(self, scope: str | None, categories: Sequence[str], limit: int) -> list[Row]:
        """Return the newest rows of a scope (None: any): newest first, then by id."""
        lists = [self._newest.get((scope, category), []) for category in categories]
        return [row for _, _, row in islice(merge(*lists, key=itemgetter(0, 1)), limit)]

    def recent_of_first(self, scope: str | None, categories: Sequence[str], limit: int) -> list[Row]:
        """List as the public plugin does: it reads unsorted, so it sees only the first ``4 * limit`` stored rows."""
        lists = [self._stored.get((scope, category), []) for category in categories]
        read = [row for _, row in islice(merge(*lists, key=itemgetter(0)), min(1024, 4 * limit))]
        return sorted(read, key=lambda row: (-row.created_at, id_order(row.id)))[:limit]

    def hard_rules(self, scope: str | None) -> list[Row]:
        """Return every hard rule in force in a scope (None: any): its own, then those of scope ``global``.

        Each group is sorted oldest first, then by id.
        """
        everywhere = [] if scope in (None, GLOBAL) else self._hard.get(GLOBAL, [])
        return [*self._hard.get(scope, ()), *everywhere]
