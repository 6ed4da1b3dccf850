"""The exact store: score every visible row once per query in both lanes, then filter by scope and label.

All arms, tiers and samples of labels share these scores. Results equal those of a compacted and indexed LanceDB table,
bit for bit. With ``lane="scan"`` they equal those of the public plugin, which has no index: ties of the vector lane and
all hits of the text lane are then in table order.

Announced queries (:meth:`ExactStore.expect`) are scored in blocks, with one matrix product for many turns; rows added
within a block are scored turn by turn. The float32 product only preselects rows. Their distances are then computed
one by one in float64, so that no score depends on the other queries of a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from lab.base.columns import Growing
from lab.recordings.model import LABELS
from lab.retrieval.bm25 import Postings, index_scores, scan_hits
from lab.retrieval.collation import id_order
from lab.retrieval.contract import (
    Filter,
    Hit,
    Lanes,
    Query,
    Row,
    TablePositions,
    scan_distances,
    scan_score,
    vector_score,
)
from lab.retrieval.tokens import TextSettings

if TYPE_CHECKING:
    import numpy as np


# Queries per matrix product. More would cost memory and gain little.
BLOCK = 64
# Distances closer than this may change order through the float32 product and the rounding of scores (up to 2.5e-5).
BAND = 6e-5
# Size of the groups of values whose minima give an upper bound of the lowest values (see nearest).
GROUP = 32
# Near rows for each hit of a search. A tier with a smaller share of them than one in so many is searched by itself.
NEAR = 32
_new = tuple.__new__


class ExactStore:
    """Rows, vectors and postings in memory.

    The first rows may be those of a ``base``, a store that is only read, in its order (:meth:`take`).
    """

    def __init__(self, dimension: int, settings: TextSettings | None = None, base: ExactStore | None = None) -> None:
        import numpy as np

        self.settings = settings or TextSettings()
        self.rows: list[Row] = []
        self._base, self._taken = base, 0
        self.scope_codes: dict[str, int] = {} if base is None else dict(base.scope_codes)
        self._matrix = Growing(np.float32, dimension)
        self._norms = Growing(np.float32)
        self._scopes = Growing(np.int32)
        self._labels = Growing(np.int8)
        self._row_positions = Growing(np.int64)
        self._table_positions = TablePositions()
        self._postings: Postings = Postings(None if base is None else base._postings)
        self._removed: list[int] = []
        self._members: Members | None = None
        self._expected: np.ndarray = np.zeros((0, dimension), np.float32)
        self._next_query = 0
        # The scored block: its first query, the number of rows it covers, products float32 [queries, rows].
        self._block: tuple[int, int, np.ndarray] | None = None

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows (:meth:`lab.retrieval.contract.Store.add`)."""
        import numpy as np

        if not rows:
            return
        self._members = None
        self.rows.extend(rows)
        self._matrix.extend(vectors)
        self._norms.extend(np.einsum("ij,ij->i", vectors, vectors))
        self._scopes.extend([self.scope_codes.setdefault(row.scope, len(self.scope_codes)) for row in rows])
        self._labels.extend([LABELS.index(row.importance_label) for row in rows])
        self._row_positions.extend([self._table_positions.next(row) for row in rows])
        self._postings.add(tokens)

    def take(self, rows: Sequence[Row]) -> int:
        """Append those of ``rows`` that come next in the base, without their vectors and tokens; return their number.

        It is 0 without a base, and once other rows were added.
        """
        base, start = self._base, self._taken
        if base is None or len(self.rows) > start:
            return 0
        known = base.rows[start : start + len(rows)]
        count = len(known)
        if known != rows[:count]:
            count = next(at for at, (one, other) in enumerate(zip(known, rows, strict=False)) if one != other)
        self._members = None
        self._taken = end = start + count
        self.rows += known[:count]
        for mine, theirs in (
            (self._norms, base._norms),
            (self._scopes, base._scopes),
            (self._labels, base._labels),
            (self._row_positions, base._row_positions),
        ):
            mine.extend(theirs.array[start:end])
        self._table_positions.pass_over(self._row_positions.array[start:])
        self._postings.take(count)
        return count

    def remove(self, identity: str) -> None:
        """Exclude the row of an id from every search. Its number is not reused."""
        number = max(number for number, row in enumerate(self.rows) if row.id == identity)
        self._removed.append(number)
        self._members = None
        self._postings.remove(number)

    def refresh(self) -> None:
        """Do nothing: statistics follow every change."""

    def expect(self, vectors: np.ndarray) -> None:
        """Announce the query vectors to come (float32 ``[queries, dimension]``), in order."""
        self._expected, self._next_query, self._block = vectors, 0, None

    def view(self, query: Query) -> ExactView:
        """Return a view of the current rows for one query."""
        import numpy as np

        near = None if query.vector is None else self._near(query.vector)
        view_class = ScanView if self.settings.lane == "scan" else ExactView
        if self._members is None:
            present = None
            if self._removed:
                present = np.ones(len(self.rows), bool)
                present[self._removed] = False
            self._members = Members(self._scopes.array, self._labels.array, self.scope_codes, present)
        query = replace(query, tokens=self.settings.query_tokens(query.tokens))
        return view_class(self.rows, self._members, self._row_positions.array, near, self._postings, query)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def _near(self, query: np.ndarray) -> Lane:
        import numpy as np

        vector, row_positions = query.astype(np.float32), self._row_positions.array
        # Rows that are added later are not part of the view.
        vectors = self._vectors()
        point = vector.astype(np.float64)

        def exact(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            difference = _of(vectors, rows) - point
            distances = np.einsum("ij,ij->i", difference, difference)
            return vector_score(distances), distances

        def exact_by_scan(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            distances = scan_distances(_of(vectors, rows), vector)
            return scan_score(distances), distances

        rough = self._products(vector)
        if self.settings.lane == "scan":
            # Rows become visible in the order of their numbers, which break ties between equal positions.
            return Lane(
                rough, BAND, exact_by_scan, lambda number, distance: (distance, int(row_positions[number]), number)
            )
        return Lane(rough, BAND, exact, self._by_id)

    def _by_id(self, number: int, _distance: float) -> Any:
        return id_order(self.rows[number].id)

    def _vectors(self, start: int = 0) -> list[np.ndarray]:
        """Return the vectors of all rows from ``start`` on, in the parts in which they are kept."""
        base = [] if self._base is None else [self._base._matrix.array[start : self._taken]]
        own = self._matrix.array[max(start - self._taken, 0) :]
        return [part for part in base if len(part)] + ([own] if len(own) or not self._taken else [])

    def _products(self, vector: np.ndarray) -> np.ndarray:
        """Return the squared distance of every row minus the query's norm, float32 ``[rows]``, to float32 precision."""
        import numpy as np

        norms = self._norms.array
        # An announced query may have been skipped, so look for this one among those that follow.
        ahead = range(self._next_query, min(self._next_query + BLOCK, len(self._expected)))
        query = next((index for index in ahead if np.array_equal(self._expected[index], vector)), None)
        if query is None:
            rough: np.ndarray = norms - 2.0 * _times(self._vectors(), vector)
            return rough
        self._next_query = query + 1
        if self._block is None or query >= self._block[0] + BLOCK:
            # A block of a million rows takes a quarter of a gigabyte: free the last one first, and make no copy.
            self._block = None
            # Multiplying by a power of two does not change rounding, so it may come before the product.
            block = _times(self._vectors(), self._expected[query : query + BLOCK] * np.float32(-2.0))
            block += norms
            self._block = (query, len(norms), block)
        first, scored, products = self._block
        row: np.ndarray = products[query - first]
        if scored == len(norms):
            return row
        return np.concatenate([row, norms[scored:] - 2.0 * _times(self._vectors(scored), vector)])


def _of(parts: list[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return rows of a matrix in one or two parts, by number."""
    import numpy as np

    first, rest = parts[0], parts[-1]
    if len(parts) == 1:
        whole: np.ndarray = first[rows]
        return whole
    found = np.empty((len(rows), first.shape[1]), first.dtype)
    early = rows < len(first)
    found[early], found[~early] = first[rows[early]], rest[rows[~early] - len(first)]
    return found


def _times(parts: list[np.ndarray], queries: np.ndarray) -> np.ndarray:
    """Return the product of queries, ``[dimension]`` or ``[queries, dimension]``, with every row of all parts."""
    import numpy as np

    first: np.ndarray = queries @ parts[0].T
    if len(parts) == 1:
        return first
    both: np.ndarray = np.concatenate([first, queries @ parts[1].T], axis=-1)
    return both


class Members:
    """The rows that pass a filter, computed once for all queries on the same rows."""

    def __init__(
        self, scopes: np.ndarray, labels: np.ndarray, scope_codes: dict[str, int], present: np.ndarray | None = None
    ) -> None:
        self._scopes, self._labels, self._scope_codes, self._present = scopes, labels, scope_codes, present
        self._in_scope: dict[str | None, list[np.ndarray]] = {}
        self._masks: dict[Filter, np.ndarray | None] = {}
        self._numbers: dict[Filter, np.ndarray | None] = {}

    def labelled(self, labels: np.ndarray) -> Members:
        """Return the same rows with other labels (codes, at least one per row)."""
        other = Members(self._scopes, labels[: len(self._labels)], self._scope_codes, self._present)
        other._in_scope = self._in_scope
        return other

    def mask(self, where: Filter) -> np.ndarray | None:
        """Return a mask of the rows that pass a filter, bool ``[rows]``; None means all rows."""
        import numpy as np

        if where not in self._masks:
            masks = self._scoped(where.scope)
            if where.labels is not None:
                masks.append(reduce(or_, [self._labels == np.int8(LABELS.index(label)) for label in where.labels]))
            self._masks[where] = reduce(and_, masks) if masks else None
        return self._masks[where]

    def _scoped(self, scope: str | None) -> list[np.ndarray]:
        """Return at most one mask, of the present rows in a scope."""
        import numpy as np

        if scope not in self._in_scope:
            masks = [] if self._present is None else [self._present]
            if scope is not None:
                masks.append(self._scopes == np.int32(self._scope_codes.get(scope, -2)))
            self._in_scope[scope] = [reduce(and_, masks)] if masks else []
        return self._in_scope[scope].copy()

    def numbers(self, where: Filter) -> np.ndarray | None:
        """Return the numbers of the rows that pass a filter, ascending; None means all rows."""
        if where not in self._numbers:
            mask = self.mask(where)
            self._numbers[where] = None if mask is None else mask.nonzero()[0]
        return self._numbers[where]


def nearest(rough: np.ndarray, rows: np.ndarray | None, limit: int, band: float, most: float | None) -> np.ndarray:
    """Return the rows with the ``limit`` lowest values of ``rough``, and those within ``band`` above the last of them.

    Only ``rows`` (None: all) are considered, in their order, and none with a value above ``most`` (None: no bound).
    """
    import numpy as np

    values = rough if rows is None else rough[rows]
    bound: Any = most
    groups = len(values) // GROUP
    if 0 < limit <= groups:
        # At least ``limit`` values are not above the limit-th lowest of the group minima.
        least = values[: groups * GROUP].reshape(GROUP, groups).min(axis=0)
        bound = np.partition(least, limit - 1)[limit - 1] + band
        bound = bound if most is None else min(bound, most)
    near = np.arange(len(values)) if bound is None else (values <= bound).nonzero()[0]
    if len(near) > limit:
        selected = values[near]
        # Keep those that may tie with the last: the tie rule decides between them.
        near = near[selected <= np.partition(selected, limit - 1)[limit - 1] + band]
    return near if rows is None else rows[near]


class Lane:
    """One lane for one query: an approximate value of each row, and a function that computes exact scores.

    ``rough`` is float32 ``[rows]``, lower is better; rows above ``most`` are not hits (None: all are hits). ``exact``
    returns the scores and distances of rows, given their numbers. ``tie`` returns the sort key of rows with equal
    scores, given a row's number and distance.
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
        # All rows up to a value, ascending, and that value: the tiers of a turn mostly find their best rows among them.
        self._near: tuple[np.ndarray, float] | None = None

    def best(self, members: Members, where: Filter, limit: int) -> list[Hit]:
        """Return the ``limit`` best rows that pass a filter: score descending, then tie key."""
        if self._order is None:
            rows = self._nearest(members.mask(where), limit)
            if rows is None:
                rows = nearest(self._rough, members.numbers(where), limit, self._band, self._most)
            return [_new(Hit, (number, -negative, far)) for negative, number, far in self._ranked(rows)[:limit]]
        order, hits = self._order
        mask = members.mask(where)
        return hits[:limit] if mask is None else [hits[rank] for rank in mask.take(order).nonzero()[0][:limit].tolist()]

    def _nearest(self, mask: np.ndarray | None, limit: int) -> np.ndarray | None:
        """Return what :func:`nearest` returns, from the near rows alone; None if they do not suffice."""
        import numpy as np

        rough = self._rough
        groups = len(rough) // GROUP
        count = min(limit * NEAR, groups // 2)
        if count < limit or limit < 1:
            return None
        if self._near is None:
            least = rough[: groups * GROUP].reshape(GROUP, groups).min(axis=0)
            reach = float(np.partition(least, count - 1)[count - 1])
            reach = reach if self._most is None else min(reach, self._most)
            self._near = (rough <= np.float32(reach)).nonzero()[0], reach
        near, reach = self._near
        rows = near if mask is None else near[mask.take(near)]
        if len(rows) <= limit:
            return rows if reach == self._most else None
        values = rough[rows]
        last = np.partition(values, limit - 1)[limit - 1] + self._band
        return rows[values <= last] if last <= reach or reach == self._most else None

    def rank_all(self) -> np.ndarray:
        """Rank all rows once, for a query that is searched under many masks; return their numbers, best first."""
        import numpy as np

        if self._order is None:
            ranked = self._ranked(nearest(self._rough, None, len(self._rough), self._band, self._most))
            hits = [_new(Hit, (number, -negative, distance)) for negative, number, distance in ranked]
            self._order = (np.asarray([number for _, number, _ in ranked], np.intp), hits)
        return self._order[0]

    def _ranked(self, rows: np.ndarray) -> list[tuple[float, int, float]]:
        """Return negative score, number and distance of rows, best first."""
        scores, distances = self._exact(rows)
        ranked = sorted(zip((-scores).tolist(), rows.tolist(), distances.tolist(), strict=True))
        if len({negative for negative, _, _ in ranked}) < len(ranked):
            tie = self._tie
            ranked.sort(key=lambda hit: (hit[0], tie(hit[1], hit[2]), hit[1]))
        return ranked


class ExactView:
    """Both lanes for one query. Filters are masks over them."""

    def __init__(
        self,
        rows: Sequence[Row],
        members: Members,
        row_positions: np.ndarray,
        near: Lane | None,
        postings: Postings,
        query: Query,
    ) -> None:
        self._rows, self._members, self._row_positions = rows, members, row_positions
        self._near, self._postings, self._query = near, postings, query
        self._text = self._score_text()
        self._all_ranked = False
        self._cache: dict[tuple[Filter, int], Lanes] = {}

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return the ``limit`` best hits of each lane that pass a filter."""
        lanes = self._cache.get((where, limit))
        if lanes is None:
            started = time.perf_counter_ns()
            fts = self._search_text(where, limit)
            vec = self._near.best(self._members, where, limit) if self._near else []
            lanes = self._cache[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started)
        return lanes

    def ranked(self, scope: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of a scope's rows (None: of any scope), best first, in the text and in the vector lane."""
        import numpy as np

        mask = self._members.mask(Filter(scope))
        nothing = np.zeros(0, np.intp)
        text, near = (nothing if lane is None else lane.rank_all() for lane in (self._text, self._near))
        return (text, near) if mask is None else (text[mask.take(text)], near[mask.take(near)])

    def with_labels(self, labels: np.ndarray) -> ExactView:
        """Return the same scores with other labels (codes of :data:`lab.recordings.model.LABELS`, one per row)."""
        if not self._all_ranked:
            for lane in (self._near, self._text):
                if lane is not None:
                    lane.rank_all()
            self._all_ranked = True
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._members, other._cache = self._members.labelled(labels), {}
        return other

    def _score_text(self) -> Lane | None:
        """Return a lane of the rows that contain a word of the query."""
        import numpy as np

        scores, rows = index_scores(self._postings, self._query.tokens), self._rows
        return Lane(
            -scores,
            0.0,
            lambda numbers: (scores[numbers], np.zeros(len(numbers))),
            lambda number, _: id_order(rows[number].id),
            # Rows without a word of the query score 0.
            -float(np.finfo(np.float32).smallest_subnormal),
        )

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        return self._text.best(self._members, where, limit) if self._text else []


class ScanView(ExactView):
    """A view with the public plugin's text lane, whose statistics depend on the filter."""

    def _score_text(self) -> None:
        return None

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        import numpy as np

        # Rows added after this view was created are not part of it.
        allowed = np.zeros(self._postings.rows, bool)
        mask = self._members.mask(where)
        allowed[: len(self._row_positions)] = True if mask is None else mask
        row_positions = np.zeros(self._postings.rows, np.int64)
        row_positions[: len(self._row_positions)] = self._row_positions
        return list(map(Hit, *scan_hits(self._postings, self._query.tokens, allowed, limit, row_positions)))
