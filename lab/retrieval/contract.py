"""The interface of a store: ranked rows of two lanes (full text and vectors) under a filter.

A row is searched: a text with a scope and a label. A search returns candidates. Both stores return the same results
(``tests/retrieval/test_stores_agree.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from lab.recordings.model import GLOBAL, UNKNOWN

if TYPE_CHECKING:
    import numpy as np


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

    def pass_over(self, positions: np.ndarray) -> None:
        """Continue behind rows whose positions were assigned elsewhere."""
        self._last = max(self._last, int(positions.max(initial=0)))


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


LANES = 16


class Hit(NamedTuple):
    """A row in one lane's ranking.

    ``distance`` is squared L2 in the vector lane and 0 in the text lane (E-8, E-9).
    """

    row: int
    score: float
    distance: float = 0.0


class Filter(NamedTuple):
    """The rows that may be returned: those of ``scope`` (None: any) with one of ``labels`` (None: any)."""

    scope: str | None = None
    labels: tuple[str, ...] | None = None


class Lanes(NamedTuple):
    """Both lanes under one filter, best first, and the nanoseconds that the search took."""

    fts: list[Hit]
    vec: list[Hit]
    nanoseconds: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """A query: text and tokens for the text lane, a vector (None: no embedding) for the vector lane."""

    text: str
    tokens: Sequence[str]
    vector: np.ndarray | None


class View(Protocol):
    """One query on the store's current rows. Results are cached.

    Ties are ordered by id (:mod:`lab.retrieval.collation`), in the plugin's scan by position in the table.
    """

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return the first ``limit`` hits of each lane under ``where``."""
        ...


@runtime_checkable
class LabelledView(View, Protocol):
    """A view that can apply other labels without scoring again."""

    def with_labels(self, labels: np.ndarray) -> View:
        """Return the same scores under sampled labels: int8 codes of :data:`lab.recordings.model.LABELS`, by row."""
        ...

    def ranked(self, scope: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of a scope's rows (None: of any scope), best first, in the text and in the vector lane."""
        ...


class Store(Protocol):
    """A table of rows that only grows. A row's number is its index in the order of adding."""

    rows: list[Row]

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows with their vectors and the tokens of their ``index_text``.

        Vectors are float32 ``[len(rows), dimension]``, of unit length or zero.
        """
        ...

    def remove(self, identity: str) -> None:
        """Exclude a row from every search. Its number is not reused."""
        ...

    def refresh(self) -> None:
        """Update statistics and indexes after removing rows without adding any."""
        ...

    def expect(self, vectors: np.ndarray) -> None:
        """Announce the query vectors to come (float32 ``[queries, dimension]``), in order."""
        ...

    def view(self, query: Query) -> View:
        """Return a view of the current rows for one query."""
        ...

    def close(self) -> None:
        """Release files and handles."""
        ...


def cosine_of(distance: float) -> float:
    """Return the cosine of two vectors of unit length, given their squared L2 distance."""
    return 1.0 - distance / 2.0


def vector_score(distance: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + squared L2)`` (E-8), rounded to 1e-6 so that the last bits of a sum do not decide an order."""
    import numpy as np

    return np.round(1.0 / (1.0 + distance), 6)


def scan_score(distance: np.ndarray) -> np.ndarray:
    """Return ``1 / (1 + squared L2)`` unrounded, as the public plugin computes it."""
    score: np.ndarray = 1.0 / (1.0 + distance)
    return score


def scan_distances(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the squared L2 distances of the rows of ``matrix`` to ``vector``: float32 values as float64 ``[rows]``.

    Summed in LanceDB's order without an index, so equal to its ``_distance`` bit for bit: 16 partial sums, then one
    after another. (LanceDB sums vectors of 8 or 16 numbers differently; no embedder makes them.) Ranks of near ties
    depend on these bits.
    """
    import numpy as np

    difference = matrix - vector
    squares = difference * difference
    full = squares.shape[1] // LANES * LANES
    sums = np.zeros((len(squares), LANES), np.float32)
    for start in range(0, full, LANES):
        sums += squares[:, start : start + LANES]
    rest, total = np.zeros(len(squares), np.float32), np.zeros(len(squares), np.float32)
    for column in range(full, squares.shape[1]):
        rest += squares[:, column]
    for lane in range(LANES):
        total += sums[:, lane]
    return (rest + total).astype(np.float64)
