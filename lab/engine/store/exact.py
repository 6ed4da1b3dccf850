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

from lab.engine.memory import LABELS, Row
from lab.engine.store.bm25 import Bm25
from lab.engine.store.contract import Filter, Hit, Lanes, Query, vector_score

if TYPE_CHECKING:
    import numpy as np


class ExactStore:
    """Rows, vectors and postings in memory."""

    def __init__(self, dimension: int) -> None:
        import numpy as np

        self.rows: list[Row] = []
        self._matrix = np.zeros((64, dimension), np.float64)
        self._norms = np.zeros(0)
        self._bm25 = Bm25()
        self.scope_codes: dict[str, int] = {}
        self._scopes = np.zeros(0, np.int32)
        self._labels = np.zeros(0, np.int8)
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
        self._bm25.add(tokens)
        codes = [self.scope_codes.setdefault(row.scope, len(self.scope_codes)) for row in rows]
        self._scopes = np.concatenate([self._scopes, np.asarray(codes, np.int32)])
        self._labels = np.concatenate(
            [self._labels, np.asarray([LABELS.index(row.importance_label) for row in rows], np.int8)]
        )
        self._by_id = np.asarray(sorted(range(len(self.rows)), key=lambda row: self.rows[row].id), np.intp)

    def view(self, query: Query) -> ExactView:
        """Score every row for ``query``."""
        started = time.perf_counter_ns()
        view = ExactView(
            self._scopes, self._labels, self.scope_codes, *self._rank_text(query), *self._rank_vectors(query)
        )
        view.scoring_ns = time.perf_counter_ns() - started
        return view

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
        score = self._bm25.scores(query.tokens)
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
        fts_order: np.ndarray,
        fts_score: np.ndarray,
        vec_order: np.ndarray,
        vec_score: np.ndarray,
        vec_distance: np.ndarray,
    ) -> None:
        self._scopes, self._scope_codes = scopes, scope_codes
        self._fts, self._vec = (fts_order, fts_score), (vec_order, vec_score, vec_distance)
        self._fts_labels, self._vec_labels = labels[fts_order], labels[vec_order]
        self._found: dict[tuple[Filter, int], Lanes] = {}
        self.scoring_ns = 0

    def search(self, where: Filter, limit: int) -> Lanes:
        """Mask the rankings by ``where`` and cut at ``limit``. The scoring is charged to the first search of a turn."""
        found = self._found.get((where, limit))
        if found is None:
            started = time.perf_counter_ns()
            fts_rows, fts_scores = self._cut(where, limit, self._fts_labels, *self._fts)
            vec_rows, vec_scores, distances = self._cut(where, limit, self._vec_labels, *self._vec)
            fts = list(map(Hit, fts_rows, fts_scores))
            vec = list(map(Hit, vec_rows, vec_scores, distances))
            charged = 0 if self._found else self.scoring_ns
            found = self._found[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started + charged)
        return found

    def with_labels(self, labels: np.ndarray) -> ExactView:
        """The same rankings under another draw of labels (codes of :data:`lab.engine.memory.LABELS`, one a row)."""
        return ExactView(self._scopes, labels[: len(self._scopes)], self._scope_codes, *self._fts, *self._vec)

    def _cut(
        self, where: Filter, limit: int, labels: np.ndarray, order: np.ndarray, *columns: np.ndarray
    ) -> list[list[Any]]:
        """The first ``limit`` places of a ranking that pass: row numbers, then the columns.

        ``labels`` are the label codes along it.
        """
        masks = []
        if where.scope is not None:
            masks.append(self._scopes[order] == self._scope_codes.get(where.scope, -1))
        if where.labels is not None:
            wanted = [labels == LABELS.index(label) for label in where.labels]
            masks.append(reduce(or_, wanted))
        if not masks:
            return [column[:limit].tolist() for column in (order, *columns)]
        chosen = reduce(and_, masks).nonzero()[0][:limit]
        return [column[chosen].tolist() for column in (order, *columns)]
