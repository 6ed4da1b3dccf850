"""What recall asks of a store: ranked rows of two lanes under a filter.

Both stores answer alike (``tests/retrieval/test_stores_agree.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from lab.retrieval.row import Row

if TYPE_CHECKING:
    import numpy as np

LANES = 16


class Hit(NamedTuple):
    """A row in one lane's ranking.

    ``distance`` is squared L2 in the vector lane and 0 in the text lane (E-8, E-9).
    """

    row: int
    score: float
    distance: float = 0.0


class Filter(NamedTuple):
    """Rows that may be returned: those of one scope (None: of any) whose label is one of ``labels`` (None: any)."""

    scope: str | None = None
    labels: tuple[str, ...] | None = None


class Lanes(NamedTuple):
    """Both lanes under one filter, best first, and what finding them cost."""

    fts: list[Hit]
    vec: list[Hit]
    nanoseconds: int = 0


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: the text for the one lane, its vector (None: no embedding) for the other."""

    text: str
    tokens: Sequence[str]
    vector: np.ndarray | None


class View(Protocol):
    """A query on a store as it stands; asking again costs nothing.

    Ties stand in the order of ids (:mod:`lab.retrieval.collation`), in the plugin's scan in the order of the table.
    """

    def search(self, where: Filter, limit: int) -> Lanes:
        """The first ``limit`` hits of each lane under ``where``."""
        ...


@runtime_checkable
class LabelledView(View, Protocol):
    """A view that can be looked at under other labels without being scored anew."""

    def with_labels(self, labels: np.ndarray) -> View:
        """The same scores under a draw of labels: int8 codes of :data:`lab.recordings.model.LABELS`, one a row."""
        ...


class Store(Protocol):
    """Rows that only grow. A row's number is its place in the order of adding."""

    rows: list[Row]

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows with their vectors and the tokens of their ``index_text``.

        Vectors are float32 ``[len(rows), dimension]``: of unit length, or zero.
        """
        ...

    def remove(self, identity: str) -> None:
        """Take a row out of every search; its number stays taken."""
        ...

    def settle(self) -> None:
        """Bring statistics and indexes up to date after rows were removed and none was added."""
        ...

    def expect(self, vectors: np.ndarray) -> None:
        """Say which vectors (float32 ``[queries, dimension]``) views will be asked for, in this order."""
        ...

    def view(self, query: Query) -> View:
        """Everything that recall can ask about one query."""
        ...

    def close(self) -> None:
        """Give back files and handles."""
        ...


def vector_score(distance: np.ndarray) -> np.ndarray:
    """``1 / (1 + squared L2)`` (E-8), rounded to 1e-6: the last bits of a sum must not decide an order."""
    import numpy as np

    return np.round(1.0 / (1.0 + distance), 6)


def scan_score(distance: np.ndarray) -> np.ndarray:
    """``1 / (1 + squared L2)`` with every bit, as the public plugin makes it."""
    score: np.ndarray = 1.0 / (1.0 + distance)
    return score


def scan_distances(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Squared L2 distances of the rows of ``matrix`` to ``vector``: float64 ``[rows]`` that hold float32 values.

    Summed in the order in which LanceDB sums without an index, equal to its ``_distance`` in every bit: 16 sums side
    by side, then one after another (vectors of 8 or 16 numbers, which no embedder makes, it sums otherwise). Ranks of
    near ties depend on these bits.
    """
    import numpy as np

    difference = matrix - vector
    squares = difference * difference
    whole = squares.shape[1] // LANES * LANES
    sums = np.zeros((len(squares), LANES), np.float32)
    for start in range(0, whole, LANES):
        sums += squares[:, start : start + LANES]
    rest, total = np.zeros(len(squares), np.float32), np.zeros(len(squares), np.float32)
    for column in range(whole, squares.shape[1]):
        rest += squares[:, column]
    for lane in range(LANES):
        total += sums[:, lane]
    return (rest + total).astype(np.float64)
