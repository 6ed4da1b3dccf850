"""The memories table in LanceDB: native full-text and vector search, with scope and labels as pre-filters.

LanceDB's top-k among equal scores depends on the order of insertion, so searches fetch past the last tied score and
sort the result. Rows added after an index was built are scored with other statistics, and every append adds a
fragment, so the table is compacted and its indexes are updated after every change (``compact_every`` is the number of
pending rows at which this happens).

The default is 1 because answers must not depend on when rows were added: with ten rows pending on a thousand, one
turn in sixteen selected other memories. It is not the fastest: ``lab study latency`` measured one append plus one
recall as cheapest at 16.

The vector lane is exact (it compares every row that passes the filter) unless there is a :class:`VectorIndex`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from math import isqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Filter, Hit, Lanes, Query, Row, vector_score
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.tokens import TextSettings, distinct_text, searchable, storable, words_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

TABLE = "memories"
# Extra hits in the first fetch; the count doubles while the last hit still ties with the one at the limit.
SLACK = 8
# Rows of one write.
WRITTEN = 4096
# Distances closer than this can round to one score: at 4, the largest distance of unit vectors, a score step of 1e-6
# is 2.5e-5 of distance; the rest covers float32 sums.
TIE_BAND = 3e-5
VECTOR_INDEXES = ("none", "ivf_flat")


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An inverted file index (IVF_FLAT): approximate, because only the ``probes`` nearest cells are searched.

    It is built once the table has ``from_rows`` rows, with the square root of their number as the number of cells.
    Until then the search is exact.
    """

    kind: str = "ivf_flat"
    probes: int = 20
    from_rows: int = 1_000

    def describe(self) -> dict[str, Any]:
        """Return the settings, for manifests."""
        return asdict(self)


def schema(dimension: int) -> pa.Schema:
    """Return the columns of E-1 plus ``index_text``, which is searched instead of ``text`` if a reader provides it."""
    import pyarrow as pa

    return pa.schema(
        [
            ("id", pa.string()),
            ("text", pa.string()),
            ("index_text", pa.string()),
            ("vector", pa.list_(pa.float32(), dimension)),
            ("createdAt", pa.float64()),
            ("category", pa.string()),
            ("importance", pa.float64()),
            ("importance_label", pa.string()),
            ("scope", pa.string()),
            ("trust_tier", pa.string()),
        ]
    )


class LanceStore:
    """A memories table in ``folder``, or in a temporary folder that is deleted when the store is closed."""

    def __init__(
        self,
        dimension: int,
        settings: TextSettings,
        folder: Path | None = None,
        compact_every: int | None = 1,
        *,
        vector_index: VectorIndex | None = None,
        reopen: bool = False,
    ) -> None:
        """Create the table, or with ``reopen`` open the one in ``folder``; then pass its rows to :meth:`know`.

        ``compact_every`` None: compact only when :meth:`compact` is called.
        """
        self.rows: list[Row] = []
        self.settings = settings
        self.compact_every = compact_every
        self.vector_index = vector_index
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="recall-lab-")
            folder = Path(self._temporary.name)
        self._schema = schema(dimension)
        self._number: dict[str, int] = {}
        # The changes since the table was compacted.
        self.waiting = 0
        lancedb = import_lancedb()
        with quiet_lance():
            database = lancedb.connect(str(folder))
            self.table = database.open_table(TABLE) if reopen else database.create_table(TABLE, schema=self._schema)

    def know(self, rows: Sequence[Row]) -> None:
        """Register rows that the table already contains, in the order in which they were added."""
        for row in rows:
            self._number[row.id] = len(self.rows)
            self.rows.append(row)

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows. ``tokens`` are ignored: the index makes its own."""
        import pyarrow as pa

        del tokens
        if not rows:
            return
        self.know(rows)
        columns = {
            "id": [row.id for row in rows],
            "text": [storable(row.text) for row in rows],
            "index_text": [searchable(row.index_text) for row in rows],
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel(), pa.float32()), vectors.shape[1]),
            "createdAt": [float(row.created_at) for row in rows],
            "category": [row.category for row in rows],
            "importance": [row.importance for row in rows],
            "importance_label": [row.importance_label for row in rows],
            "scope": [row.scope for row in rows],
            "trust_tier": [row.trust_tier for row in rows],
        }
        # A search of 100,000 rows that were written in one piece takes eight times as long.
        whole = pa.table(columns, schema=self._schema)
        for start in range(0, len(rows), WRITTEN):
            self.table.add(whole.slice(start, WRITTEN))
        self.waiting += len(rows)
        self.refresh()

    def refresh(self) -> None:
        """Compact if ``compact_every`` changes are pending."""
        if self.compact_every is not None and self.waiting >= self.compact_every:
            self.compact()

    def compact(self) -> None:
        """Merge fragments and update the indexes; build them the first time."""
        if not self.waiting:
            return
        with quiet_lance():
            indexed = {column for index in self.table.list_indices() for column in index.columns}
            if not indexed:
                from lancedb.index import FTS, Bitmap

                self.table.create_index("index_text", config=FTS(**self.settings.options()))
                self.table.create_index("importance_label", config=Bitmap())
                self.table.create_index("scope", config=Bitmap())
            else:
                # Nothing else reads this table, so no older version has to be kept.
                self.table.optimize(cleanup_older_than=timedelta(0))
            vector_index = self.vector_index
            if vector_index and "vector" not in indexed and len(self._number) >= vector_index.from_rows:
                from lancedb.index import IvfFlat

                cells = IvfFlat(distance_type="l2", num_partitions=isqrt(len(self._number)))
                self.table.create_index("vector", config=cells)
        self.waiting = 0

    def remove(self, identity: str) -> None:
        """Delete the row of an id. Its number is not reused; its words count until the table is compacted."""
        self.table.delete(f"id = {quoted(identity)}")
        self._number.pop(identity, None)
        self.waiting += 1

    def expect(self, vectors: np.ndarray) -> None:
        """Do nothing: a live table is searched query by query."""

    def view(self, query: Query) -> LanceView:
        """Return a view of the current table for one query."""
        return LanceView(self, query)

    def close(self) -> None:
        """Delete the folder if it is temporary."""
        if self._temporary:
            self._temporary.cleanup()

    def search_text(self, query: Query, where: Filter, limit: int) -> list[Hit]:
        """Search the text lane: BM25 over ``index_text``, score descending, then id."""
        from lancedb.query import MatchQuery

        if not self.rows or not query.tokens:
            return []
        text = searchable(query.text)
        words = self.settings.query_tokens(query.tokens)
        if len(words) < len(query.tokens):
            text = distinct_text(text, words, lambda part: words_of(self.table, part))

        def fetch(count: int) -> pa.Table:
            search = self.table.search(MatchQuery(text, "index_text"), query_type="fts")
            return _filtered(search, where).select(["id", "_score"]).limit(count).to_arrow()

        result = _fetch_past_ties(fetch, "_score", limit)
        numbers = [self._number[identity] for identity in result["id"].to_pylist()]
        hits = [Hit(number, score) for number, score in zip(numbers, result["_score"].to_pylist(), strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))[:limit]

    def search_vectors(self, query: Query, where: Filter, limit: int) -> list[Hit]:
        """Search the vector lane by squared L2.

        Distances are recomputed from the returned vectors, so that their last bits equal the exact store's.
        """
        import numpy as np

        if not self.rows or query.vector is None:
            return []
        vector = query.vector.astype(np.float32)

        def fetch(count: int) -> pa.Table:
            search = self.table.search(vector, vector_column_name="vector").distance_type("l2")
            index = self.vector_index
            search = search.nprobes(index.probes) if index else search.bypass_vector_index()
            return _filtered(search, where).select(["id", "vector", "_distance"]).limit(count).to_arrow()

        result = _fetch_past_ties(fetch, "_distance", limit)
        if not result.num_rows:
            return []
        stored = result["vector"].combine_chunks().flatten().to_numpy().reshape(result.num_rows, -1).astype(np.float64)
        difference = stored - vector.astype(np.float64)
        distances = np.einsum("ij,ij->i", difference, difference)
        numbers = [self._number[identity] for identity in result["id"].to_pylist()]
        hits = [
            Hit(*values) for values in zip(numbers, vector_score(distances).tolist(), distances.tolist(), strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))[:limit]


class LanceView:
    """One query on a table. Each filter is searched once; results are cached."""

    def __init__(self, store: LanceStore, query: Query) -> None:
        self._store, self._query = store, query
        self._cache: dict[tuple[Filter, int], Lanes] = {}

    def search(self, where: Filter, limit: int) -> Lanes:
        """Return both lanes under ``where``."""
        lanes = self._cache.get((where, limit))
        if lanes is None:
            started = time.perf_counter_ns()
            fts = self._store.search_text(self._query, where, limit)
            vec = self._store.search_vectors(self._query, where, limit)
            lanes = self._cache[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started)
        return lanes


def _fetch_past_ties(fetch: Any, column: str, limit: int) -> pa.Table:
    """Fetch until the last hit is clearly worse than the one at ``limit``, or until there are no more hits."""
    count = limit + SLACK
    while True:
        result = fetch(count)
        values = sorted(result[column].to_pylist(), reverse=column == "_score")
        if len(values) < count or abs(values[-1] - values[limit - 1]) > TIE_BAND:
            return result
        count *= 2


def _filtered(search: Any, where: Filter) -> Any:
    clauses = []
    if where.scope is not None:
        clauses.append(f"scope = {quoted(where.scope)}")
    if where.labels is not None:
        clauses.append(f"importance_label IN ({', '.join(map(quoted, where.labels))})")
    return search.where(" AND ".join(clauses), prefilter=True) if clauses else search


def quoted(text: str) -> str:
    """Return a text as an SQL string literal."""
    return "'" + text.replace("'", "''") + "'"
