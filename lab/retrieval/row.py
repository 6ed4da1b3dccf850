"""What a search is over: rows with a text, a scope and a label; and what it finds, candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lab.recordings.model import GLOBAL, UNKNOWN


@dataclass(frozen=True, slots=True)
class Row:
    """One memory as the engine stores it. ``key`` is the lab's name for it, ``id`` the engine's.

    ``hard_rule`` is a column of the lab's own (E-58): the public table has none. ``place`` orders the rows of the
    table that this one was read from (None: it was added after those that are there); ``embedded`` is False where it
    was stored without an embedding.
    """

    id: str
    key: str
    text: str
    index_text: str
    created_at: int
    category: str = "other"
    importance_label: str = UNKNOWN
    scope: str = GLOBAL
    trust_tier: str = "user"
    importance: float | None = None
    hard_rule: bool = False
    position: int | None = None
    embedded: bool = True


class TablePositions:
    """Gives each row its place in the order of the table, as rows become visible one after another.

    Rows that were read from a table have places of their own, in which they need not become visible. A row without one
    comes after all rows that are there. Equal places stand in the order in which they were given.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, row: Row) -> int:
        """The place of a row that becomes visible now."""
        position = self._last if row.position is None else row.position
        self._last = max(self._last, position)
        return position


class Candidate(NamedTuple):
    """A hit after fusion, as selection sees it.

    ``fts_rank`` and ``vec_rank`` count from 1; None means that the lane did not return it. ``distance`` is squared L2,
    0 where the vector lane did not return it.
    """

    id: str
    score: float
    created_at: int = 0
    fts_rank: int | None = None
    vec_rank: int | None = None
    distance: float = 0.0
