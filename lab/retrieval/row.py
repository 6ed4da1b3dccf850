"""Rows, which are searched (a text with a scope and a label), and candidates, which a search returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from lab.recordings.model import GLOBAL, UNKNOWN


@dataclass(frozen=True, slots=True)
class Row:
    """One memory as the engine stores it. ``key`` is the lab's name for it, ``id`` the engine's.

    ``hard_rule`` exists only in the lab (E-58): the public table has no such column. ``position`` orders the rows of
    the table that this one was read from (None: it was added later); ``embedded`` is False if it was stored without an
    embedding.
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
    """Assigns each row its position in the table as rows become visible one after another.

    Rows read from a table bring a position, and need not become visible in that order. A row without one comes after
    all rows so far. Equal positions are ordered by when they were assigned.
    """

    def __init__(self) -> None:
        self._last = 0

    def next(self, row: Row) -> int:
        """Return the position of a row that becomes visible now."""
        position = self._last if row.position is None else row.position
        self._last = max(self._last, position)
        return position


class Candidate(NamedTuple):
    """A hit after fusion, the input of selection.

    ``fts_rank`` and ``vec_rank`` count from 1; None means that the lane did not return it. ``distance`` is squared L2,
    0 if the vector lane did not return it.
    """

    id: str
    score: float
    created_at: int = 0
    fts_rank: int | None = None
    vec_rank: int | None = None
    distance: float = 0.0
