"""Rows by scope and category, newest first: what a Working Set is made from (E-27)."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from heapq import merge
from itertools import islice
from operator import itemgetter

from lab.retrieval.collation import id_order
from lab.retrieval.row import Row, TablePositions

_Entry = tuple[tuple[float, str], int, Row]
_Stored = tuple[tuple[int, int], Row]


class Listing:
    """An index that grows with the store. Rows keep the number of their place in it."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str | None, str], list[_Entry]] = {}
        self._stored: dict[tuple[str | None, str], list[_Stored]] = {}
        self._places = TablePositions()
        self._hard: dict[str | None, list[Row]] = {}
        self._count = 0

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows in the order in which they become visible."""
        entries = [((-row.created_at, id_order(row.id)), number, row) for number, row in enumerate(rows, self._count)]
        for _, number, row in entries:
            stored = ((self._places.next(row), number), row)
            for scope in (row.scope, None):
                insort(self._stored.setdefault((scope, row.category), []), stored, key=itemgetter(0))
                if row.hard_rule:
                    insort(self._hard.setdefault(scope, []), row, key=lambda one: (one.created_at, id_order(one.id)))
        # Newest first, so that each of many goes behind the one before, and none is moved for another.
        for entry in sorted(entries, key=itemgetter(0, 1)):
            for scope in (entry[2].scope, None):
                insort(self._newest.setdefault((scope, entry[2].category), []), entry, key=itemgetter(0, 1))
        self._count += len(entries)

    def remove(self, row: Row) -> None:
        """Forget a row that was replaced."""
        for scope in (row.scope, None):
            key = (scope, row.category)
            self._newest[key] = [one for one in self._newest[key] if one[2].id != row.id]
            self._stored[key] = [one for one in self._stored[key] if one[1].id != row.id]
            self._hard[scope] = [one for one in self._hard.get(scope, ()) if one.id != row.id]

    def recent(self, scope: str | None, categories: Sequence[str], limit: int) -> list[Row]:
        """The newest rows of a scope (None: of any): newest first, then id."""
        lists = [self._newest.get((scope, category), []) for category in categories]
        return [row for _, _, row in islice(merge(*lists, key=itemgetter(0, 1)), limit)]

    def recent_of_first(self, scope: str | None, categories: Sequence[str], limit: int) -> list[Row]:
        """As the public plugin lists: without an order, so that only the first ``4 * limit`` rows stored are seen."""
        lists = [self._stored.get((scope, category), []) for category in categories]
        read = [row for _, row in islice(merge(*lists, key=itemgetter(0)), min(1024, 4 * limit))]
        return sorted(read, key=lambda row: (-row.created_at, id_order(row.id)))[:limit]

    def hard_rules(self, scope: str | None) -> list[Row]:
        """Every hard rule of a scope (None: of any): oldest first, then id."""
        return list(self._hard.get(scope, ()))
