"""The exact store: every visible row scored once per query in both lanes, then filtered by scope and label.

One scoring serves every arm, every tier and every draw of labels. It answers as LanceDB does when that is compacted
and indexed, to the last bit of a score; with the lane ``scan``, as the public plugin's LanceDB does, which has no
index: ties of the vector lane and all hits of the text lane then stand in the order of the table.

Queries that are known to come (:meth:`ExactStore.expect`) are scored in blocks, one matrix product for many turns; rows
that are born within a block are scored turn by turn. A product in float32 only says which rows can be among the best.
Their distances are then computed once more, one by one in float64, so that no score depends on what was in a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from lab.recordings.model import LABELS
from lab.retrieval.bm25 import Postings, index_scores, scan_hits
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Filter, Hit, Lanes, Query, scan_distances, scan_score, vector_score
from lab.retrieval.growing import Growing
from lab.retrieval.row import Places, Row
from lab.retrieval.tokens import TextSettings

if TYPE_CHECKING:
    import numpy as np

# Queries of one product. More would cost memory and gain little.
BLOCK = 64
# Distances that differ by less may stand in either order after a float32 product and the rounding of scores, which is
# 2.5e-5 of distance at most.
BAND = 6e-5
# Values of which the lowest is found at once, to bound what can be among the best.
GROUP = 32
_new = tuple.__new__


class ExactStore:
    """Rows, vectors and postings in memory."""

    def __init__(self, dimension: int, settings: TextSettings | None = None) -> None:
        import numpy as np

        self.settings = settings or TextSettings()
        self.rows: list[Row] = []
        self.scope_codes: dict[str, int] = {}
        self._matrix = Growing(np.float32, dimension)
        self._norms = Growing(np.float32)
        self._scopes = Growing(np.int32)
        self._labels = Growing(np.int8)
        self._row_places = Growing(np.int64)
        self._places = Places()
        self._postings = Postings()
        self._removed: list[int] = []
        self._members: Members | None = None
        self._expected: np.ndarray = np.zeros((0, dimension), np.float32)
        self._asked = 0
        # The block that was scored: its first query, how many rows it speaks of, float32 [queries, rows].
        self._block: tuple[int, int, np.ndarray] | None = None

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows (see :class:`lab.retrieval.contract.Store`)."""
        import numpy as np

        if not rows:
            return
        self._members = None
        self.rows.extend(rows)
        self._matrix.extend(vectors)
        self._norms.extend(np.einsum("ij,ij->i", vectors, vectors))
        self._scopes.extend([self.scope_codes.setdefault(row.scope, len(self.scope_codes)) for row in rows])
        self._labels.extend([LABELS.index(row.importance_label) for row in rows])
        self._row_places.extend([self._places.next(row) for row in rows])
        self._postings.add(tokens)

    def remove(self, identity: str) -> None:
        """Take the row of an id out of every search; its number stays taken."""
        number = max(number for number, row in enumerate(self.rows) if row.id == identity)
        # A code that no filter asks for; and where there is no filter, a mask.
        self._scopes.array[number], self._labels.array[number] = -1, -1
        self._removed.append(number)
        self._members = None
        self._postings.remove(number)

    def settle(self) -> None:
        """Nothing to bring up to date: statistics follow every change."""

    def expect(self, vectors: np.ndarray) -> None:
        """Say which vectors (float32 ``[queries, dimension]``) views will be asked for, in this order."""
        self._expected, self._asked, self._block = vectors, 0, None

    def view(self, query: Query) -> ExactView:
        """Everything that can be asked about one query, of the rows as they are."""
        import numpy as np

        near = None if query.vector is None else self._near(query.vector)
        made = ScanView if self.settings.lane == "scan" else ExactView
        if self._members is None:
            present = None
            if self._removed:
                present = np.ones(len(self.rows), bool)
                present[self._removed] = False
            self._members = Members(self._scopes.array, self._labels.array, self.scope_codes, present)
        return made(self.rows, self._members, self._row_places.array, near, self._postings, query)

    def close(self) -> None:
        """Nothing to give back."""

    def _near(self, given: np.ndarray) -> Lane:
        import numpy as np

        vector, matrix, row_places = given.astype(np.float32), self._matrix.array, self._row_places.array
        point = vector.astype(np.float64)

        def exact(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            difference = matrix[places] - point
            distances = np.einsum("ij,ij->i", difference, difference)
            return vector_score(distances), distances

        def scanned(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            distances = scan_distances(matrix[places], vector)
            return scan_score(distances), distances

        rough = self._products(vector)
        if self.settings.lane == "scan":
            # Numbers follow the order of becoming visible, and decide where places are equal.
            return Lane(rough, BAND, scanned, lambda number, distance: (distance, int(row_places[number]), number))
        return Lane(rough, BAND, exact, self._by_id)

    def _by_id(self, number: int, _distance: float) -> Any:
        return id_order(self.rows[number].id)

    def _products(self, vector: np.ndarray) -> np.ndarray:
        """float32 ``[rows]``: the squared distance of every row, as exact as float32 is, less the query's own norm."""
        import numpy as np

        matrix, norms = self._matrix.array, self._norms.array
        # A query that was expected may not have come: those behind it still count.
        ahead = range(self._asked, min(self._asked + BLOCK, len(self._expected)))
        place = next((one for one in ahead if np.array_equal(self._expected[one], vector)), None)
        if place is None:
            rough: np.ndarray = norms - 2.0 * (matrix @ vector)
            return rough
        self._asked = place + 1
        if self._block is None or place >= self._block[0] + BLOCK:
            # A block of a million rows is a quarter of a gigabyte: the one before goes first, and no copy is made.
            self._block = None
            # A power of two changes no rounding, so that it may come before the product.
            made = (self._expected[place : place + BLOCK] * np.float32(-2.0)) @ matrix.T
            made += norms
            self._block = (place, len(matrix), made)
        first, scored, products = self._block
        mine: np.ndarray = products[place - first]
        if scored == len(matrix):
            return mine
        return np.concatenate([products[place - first], norms[scored:] - 2.0 * (matrix[scored:] @ vector)])


class Members:
    """Which rows pass a filter: found once for every query of the same rows."""

    def __init__(
        self, scopes: np.ndarray, labels: np.ndarray, scope_codes: dict[str, int], present: np.ndarray | None = None
    ) -> None:
        self._scopes, self._labels, self._scope_codes, self._present = scopes, labels, scope_codes, present
        self._in_scope: dict[str | None, list[np.ndarray]] = {}
        self._masks: dict[Filter, np.ndarray | None] = {}
        self._places: dict[Filter, np.ndarray | None] = {}

    def labelled(self, labels: np.ndarray) -> Members:
        """The same rows under other labels."""
        other = Members(self._scopes, labels[: len(self._labels)], self._scope_codes, self._present)
        other._in_scope = self._in_scope
        return other

    def mask(self, where: Filter) -> np.ndarray | None:
        """Which rows: bool ``[rows]``; None: all."""
        import numpy as np

        if where not in self._masks:
            masks = self._scoped(where.scope)
            if where.labels is not None:
                masks.append(reduce(or_, [self._labels == np.int8(LABELS.index(label)) for label in where.labels]))
            self._masks[where] = reduce(and_, masks) if masks else None
        return self._masks[where]

    def _scoped(self, scope: str | None) -> list[np.ndarray]:
        """At most one mask, of what is present and of a scope."""
        import numpy as np

        if scope not in self._in_scope:
            masks = [] if self._present is None else [self._present]
            if scope is not None:
                masks.append(self._scopes == np.int32(self._scope_codes.get(scope, -2)))
            self._in_scope[scope] = [reduce(and_, masks)] if masks else []
        return self._in_scope[scope].copy()

    def places(self, where: Filter) -> np.ndarray | None:
        """Which rows: their numbers, ascending; None: all."""
        if where not in self._places:
            mask = self.mask(where)
            self._places[where] = None if mask is None else mask.nonzero()[0]
        return self._places[where]


def nearest(rough: np.ndarray, places: np.ndarray | None, limit: int, band: float, most: float | None) -> np.ndarray:
    """The places of the ``limit`` lowest of ``rough``, and of those that are above the last by at most ``band``.

    Among ``places`` (None: all), in their order; nothing above ``most`` (None: no bound) is among them.
    """
    import numpy as np

    values = rough if places is None else rough[places]
    bound: Any = most
    groups = len(values) // GROUP
    if 0 < limit <= groups:
        # The lowest of each of so many groups: as many values at least are not above the last of them.
        least = values[: groups * GROUP].reshape(GROUP, groups).min(axis=0)
        bound = np.partition(least, limit - 1)[limit - 1] + band
        bound = bound if most is None else min(bound, most)
    near = np.arange(len(values)) if bound is None else (values <= bound).nonzero()[0]
    if len(near) > limit:
        some = values[near]
        # Those that may tie with the last are kept: another rule decides between them.
        near = near[some <= np.partition(some, limit - 1)[limit - 1] + band]
    return near if places is None else places[near]


class Lane:
    """One lane under one query: how near each row is roughly, and how its score is known exactly.

    ``rough`` is float32 ``[rows]`` with the best lowest; what is above ``most`` is no hit (None: all are). ``exact``
    gives score and distance of some rows, by their numbers. ``tie`` orders rows of equal scores, from a row's number
    and distance.
    """

    def __init__(
        self,
        rough: np.ndarray,
        band: float,
        exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
        tie: Callable[[int, float], Any],
        most: float | None = None,
    ) -> None:
        self._rough, self._band, self._exact, self._tie, self._most = rough, band, exact, tie, most
        self._order: tuple[np.ndarray, list[Hit]] | None = None

    def best(self, members: Members, where: Filter, limit: int) -> list[Hit]:
        """The ``limit`` best of the rows that pass a filter: score descending, then by the tie's order."""
        if self._order is None:
            places = nearest(self._rough, members.places(where), limit, self._band, self._most)
            return [_new(Hit, (number, -negative, far)) for negative, number, far in self._ranked(places)[:limit]]
        order, hits = self._order
        mask = members.mask(where)
        return (
            hits[:limit] if mask is None else [hits[place] for place in mask.take(order).nonzero()[0][:limit].tolist()]
        )

    def settle(self) -> None:
        """Make the whole order once, where the same query is asked under many masks."""
        import numpy as np

        if self._order is None:
            ranked = self._ranked(nearest(self._rough, None, len(self._rough), self._band, self._most))
            hits = [Hit(number, -negative, distance) for negative, number, distance in ranked]
            self._order = (np.asarray([hit.row for hit in hits], np.intp), hits)

    def _ranked(self, places: np.ndarray) -> list[tuple[float, int, float]]:
        """Negative score, number and distance of rows, best first."""
        scores, distances = self._exact(places)
        ranked = sorted(zip((-scores).tolist(), places.tolist(), distances.tolist(), strict=True))
        if len({negative for negative, _, _ in ranked}) < len(ranked):
            tie = self._tie
            ranked.sort(key=lambda one: (one[0], tie(one[1], one[2]), one[1]))
        return ranked


class ExactView:
    """Both lanes for one query; filters are masks over them."""

    def __init__(
        self,
        rows: Sequence[Row],
        members: Members,
        row_places: np.ndarray,
        near: Lane | None,
        postings: Postings,
        query: Query,
    ) -> None:
        self._rows, self._members, self._row_places = rows, members, row_places
        self._near, self._postings, self._query = near, postings, query
        self._worded = self._score_text()
        self._settled = False
        self._found: dict[tuple[Filter, int], Lanes] = {}

    def search(self, where: Filter, limit: int) -> Lanes:
        """The best of each lane under ``where``."""
        found = self._found.get((where, limit))
        if found is None:
            started = time.perf_counter_ns()
            fts = self._search_text(where, limit)
            vec = self._near.best(self._members, where, limit) if self._near else []
            found = self._found[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started)
        return found

    def with_labels(self, labels: np.ndarray) -> ExactView:
        """The same scores under another draw of labels (codes of :data:`lab.recordings.model.LABELS`, one a row)."""
        if not self._settled:
            for lane in (self._near, self._worded):
                if lane is not None:
                    lane.settle()
            self._settled = True
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._members, other._found = self._members.labelled(labels), {}
        return other

    def _score_text(self) -> Lane | None:
        """The rows with a word of the query."""
        import numpy as np

        scores, known = index_scores(self._postings, self._query.tokens), self._rows
        return Lane(
            -scores,
            0.0,
            lambda places: (scores[places], np.zeros(len(places))),
            lambda number, _: id_order(known[number].id),
            # Rows without a word have a score of 0.
            -float(np.finfo(np.float32).smallest_subnormal),
        )

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        return self._worded.best(self._members, where, limit) if self._worded else []


class ScanView(ExactView):
    """A view whose text lane is the public plugin's: it has other statistics under every filter."""

    def _score_text(self) -> None:
        return None

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        import numpy as np

        # Rows that were added after this view was made are not part of it.
        allowed = np.zeros(self._postings.rows, bool)
        mask = self._members.mask(where)
        allowed[: len(self._row_places)] = True if mask is None else mask
        row_places = np.zeros(self._postings.rows, np.int64)
        row_places[: len(self._row_places)] = self._row_places
        return list(map(Hit, *scan_hits(self._postings, self._query.tokens, allowed, limit, row_places)))
