"""The exact store: all visible rows scored once per query in both lanes, then masked by scope and label.

One scoring serves every arm, every tier and every draw of labels. It answers as LanceDB does when that is compacted
and indexed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from lab.engine.collation import id_order
from lab.engine.memory import LABELS, Row
from lab.engine.store.bm25 import Postings, index_scores, scan_hits
from lab.engine.store.contract import Filter, Hit, Lanes, Query, vector_score
from lab.engine.store.tokens import TextSettings

if TYPE_CHECKING:
    import numpy as np


class ExactStore:
    """Rows, vectors and postings in memory."""

    def __init__(self, dimension: int, settings: TextSettings | None = None) -> None:
        import numpy as np

        self.settings = settings or TextSettings()

        self.rows: list[Row] = []
        self._matrix = np.zeros((64, dimension), np.float64)
        self._norms = np.zeros(0)
        self._postings = Postings()
        self.scope_codes: dict[str, int] = {}
        self._scopes = np.zeros(0, np.int32)
        self._labels = np.zeros(0, np.int8)
        self._places: list[str] = []
        self._by_id = np.zeros(0, np.intp)

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows (see :class:`lab.engine.store.contract.Store`)."""
        import numpy as np

        if not rows:
            return
        start = len(self.rows)
        self.rows.extend(rows)
        if len(self.rows) > len(self._matrix):
            # Grow by doubling: appending one by one then copies each row a constant number of times.
            grown = np.zeros((max(len(self.rows), 2 * len(self._matrix)), self._matrix.shape[1]), np.float64)
            grown[:start] = self._matrix[:start]
            self._matrix = grown
        self._matrix[start : len(self.rows)] = vectors
        added = self._matrix[start : len(self.rows)]
        self._norms = np.concatenate([self._norms, np.einsum("ij,ij->i", added, added)])
        self._postings.add(tokens)
        codes = [self.scope_codes.setdefault(row.scope, len(self.scope_codes)) for row in rows]
        self._scopes = np.concatenate([self._scopes, np.asarray(codes, np.int32)])
        self._labels = np.concatenate(
            [self._labels, np.asarray([LABELS.index(row.importance_label) for row in rows], np.int8)]
        )
        self._places += [id_order(row.id) for row in rows]
        self._by_id = np.asarray(sorted(range(len(self.rows)), key=self._places.__getitem__), np.intp)

    def remove(self, identity: str) -> None:
        """Take the row of an id out of every search; its number stays taken."""
        number = max(number for number, row in enumerate(self.rows) if row.id == identity)
        # A code that no filter asks for.
        self._scopes[number], self._labels[number] = -1, -1
        self._postings.remove(number)

    def view(self, query: Query) -> ExactView:
        """Score every row for ``query``."""
        vectors = self._rank_vectors(query)
        if self.settings.lane == "scan":
            return ScanView(self._scopes, self._labels, self.scope_codes, vectors, self._postings, query)
        return ExactView(self._scopes, self._labels, self.scope_codes, vectors, self._rank_text(query))

    def close(self) -> None:
        """Nothing to give back."""

    def _rank_vectors(self, query: Query) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        import numpy as np

        if query.vector is None or not self.rows:
            return np.zeros(0, np.intp), np.zeros(0), np.zeros(0)
        vector = query.vector.astype(np.float64)
        matrix = self._matrix[: len(self.rows)]
        distance = np.maximum(0.0, self._norms + vector @ vector - 2.0 * (matrix @ vector))
        score = vector_score(distance)
        order = self._ordered(score)
        return order, score[order], distance[order]

    def _rank_text(self, query: Query) -> tuple[np.ndarray, np.ndarray]:
        score = index_scores(self._postings, query.tokens)
        order = self._ordered(score)
        order = order[score[order] > 0]
        return order, score[order]

    def _ordered(self, score: np.ndarray) -> np.ndarray:
        """Row numbers, score descending, then engine id ascending.

        A stable sort of rows that already stand in order of id.
        """
        import numpy as np

        return self._by_id[np.argsort(-score[self._by_id], kind="stable")]


class ExactView:
    """The full ranking of both lanes for one query; filters are masks over it."""

    def __init__(
        self,
        scopes: np.ndarray,
        labels: np.ndarray,
        scope_codes: dict[str, int],
        vectors: tuple[np.ndarray, np.ndarray, np.ndarray],
        text: tuple[np.ndarray, np.ndarray],
    ) -> None:
        self._scopes, self._labels, self._scope_codes = scopes, labels, scope_codes
        self._vectors, self._text = vectors, text
        self._vector_labels, self._text_labels = labels[vectors[0]], labels[text[0]]
        self._found: dict[tuple[Filter, int], Lanes] = {}

    def search(self, where: Filter, limit: int) -> Lanes:
        """Mask the rankings by ``where`` and cut at ``limit``."""
        found = self._found.get((where, limit))
        if found is None:
            started = time.perf_counter_ns()
            fts = self._search_text(where, limit)
            vec = list(map(Hit, *self._cut(where, limit, self._vector_labels, *self._vectors)))
            found = self._found[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started)
        return found

    def with_labels(self, labels: np.ndarray) -> ExactView:
        """The same rankings under another draw of labels (codes of :data:`lab.engine.memory.LABELS`, one a row)."""
        return ExactView(self._scopes, labels[: len(self._scopes)], self._scope_codes, self._vectors, self._text)

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        return list(map(Hit, *self._cut(where, limit, self._text_labels, *self._text)))

    def _cut(
        self, where: Filter, limit: int, labels: np.ndarray, order: np.ndarray, *columns: np.ndarray
    ) -> list[list[Any]]:
        """The first ``limit`` places of a ranking that pass: row numbers, then the columns.

        ``labels`` are the label codes along it.
        """
        passes = self._passes(where, labels, order)
        if passes is None:
            return [column[:limit].tolist() for column in (order, *columns)]
        chosen = passes.nonzero()[0][:limit]
        return [column[chosen].tolist() for column in (order, *columns)]

    def _passes(self, where: Filter, labels: np.ndarray, order: np.ndarray | slice) -> np.ndarray | None:
        """Which places of a ranking pass a filter; None: all."""
        masks = []
        if where.scope is not None:
            masks.append(self._scopes[order] == self._scope_codes.get(where.scope, -1))
        if where.labels is not None:
            wanted = [labels == LABELS.index(label) for label in where.labels]
            masks.append(reduce(or_, wanted))
        return reduce(and_, masks) if masks else None


class ScanView(ExactView):
    """A view whose text lane is the public plugin's: it has other statistics under every filter."""

    def __init__(
        self,
        scopes: np.ndarray,
        labels: np.ndarray,
        scope_codes: dict[str, int],
        vectors: tuple[np.ndarray, np.ndarray, np.ndarray],
        postings: Postings,
        query: Query,
    ) -> None:
        import numpy as np

        nothing = (np.zeros(0, np.intp), np.zeros(0, np.float32))
        super().__init__(scopes, labels, scope_codes, vectors, nothing)
        self._postings, self._query = postings, query

    def with_labels(self, labels: np.ndarray) -> ScanView:
        """The same rows under another draw of labels."""
        mine = labels[: len(self._scopes)]
        return ScanView(self._scopes, mine, self._scope_codes, self._vectors, self._postings, self._query)

    def _search_text(self, where: Filter, limit: int) -> list[Hit]:
        import numpy as np

        # Rows that came after this view was made are none of its business.
        allowed = np.zeros(self._postings.rows, bool)
        passes = self._passes(where, self._labels, slice(None))
        allowed[: len(self._scopes)] = True if passes is None else passes
        return list(map(Hit, *scan_hits(self._postings, self._query.tokens, allowed, limit)))
