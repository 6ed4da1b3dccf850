"""The memories table in LanceDB: native full-text and vector search per tier, scope and label as pre-filters.

LanceDB's own top-k among equal scores depends on the order of insertion, so searches fetch past the last tied score
and the result is put into the one total order. Rows added after an index was built are scored with other statistics,
and every append costs a fragment: so the table is compacted and its indexes brought up to date after every
change (``compact_every`` says how many rows may wait).

The default is 1 because answers must not depend on when rows came: with ten of them waiting on a thousand, one turn in
sixteen chose other memories. It is not the quickest: ``lab latency`` found one append and one recall cheapest with 16.

The vector lane is exact, every row that passes the filter is compared, unless a :class:`VectorIndex` is asked for.
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
from lab.retrieval.contract import Filter, Hit, Lanes, Query, vector_score
from lab.retrieval.quiet import import_lancedb, quiet_lance
from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings, searchable, storable

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

TABLE = "memories"
# Hits fetched beyond the limit at first; doubled while the last one still ties with the last wanted.
SLACK = 8
# Distances that differ by less can round to one score: at the largest distance of unit vectors, 4, the score's 1e-6 is
# 2.5e-5 of distance; and they are float32 sums.
TIE_BAND = 3e-5
VECTOR_INDEXES = ("none", "ivf_flat")


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """An inverted file over whole vectors (IVF_FLAT): approximate, for only the ``probes`` nearest cells are searched.

    There are as many cells as the root of the rows that the table has when it is built, which it is not before there
    are ``from_rows``: until then the search is exact.
    """

    kind: str = "ivf_flat"
    probes: int = 20
    from_rows: int = 1_000

    def describe(self) -> dict[str, Any]:
        """Its settings, for manifests."""
        return asdict(self)


def schema(dimension: int) -> pa.Schema:
    """The columns of E-1, and ``index_text``, which is searched in place of ``text`` where a reader gives one."""
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
    """A memories table in a folder of its own, or in a temporary one that goes when the store is closed."""

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
        """Create the table, or with ``reopen`` open the one in ``folder``, whose rows :meth:`know` must be told.

        ``compact_every`` None: only when :meth:`compact` is called.
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
        self._waiting = 0
        lancedb = import_lancedb()
        with quiet_lance():
            database = lancedb.connect(str(folder))
            self.table = database.open_table(TABLE) if reopen else database.create_table(TABLE, schema=self._schema)

    @property
    def waiting(self) -> int:
        """Rows that were added since the table was last compacted."""
        return self._waiting

    def know(self, rows: Sequence[Row]) -> None:
        """Number rows that the table holds, in the order in which they were added."""
        for row in rows:
            self._number[row.id] = len(self.rows)
            self.rows.append(row)

    def add(self, rows: Sequence[Row], vectors: np.ndarray, tokens: Sequence[list[str]]) -> None:
        """Append rows; ``tokens`` are not needed, the index makes its own."""
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
        self.table.add(pa.table(columns, schema=self._schema))
        self._waiting += len(rows)
        self.settle()

    def settle(self) -> None:
        """Compact where as many changes wait as may."""
        if self.compact_every is not None and self._waiting >= self.compact_every:
            self.compact()

    def compact(self) -> None:
        """Merge fragments and bring every index up to date; the first time, build them."""
        if not self._waiting:
            return
        with quiet_lance():
            built = {column for index in self.table.list_indices() for column in index.columns}
            if not built:
                from lancedb.index import FTS, Bitmap

                self.table.create_index("index_text", config=FTS(**self.settings.options()))
                self.table.create_index("importance_label", config=Bitmap())
                self.table.create_index("scope", config=Bitmap())
            else:
                # Nobody else reads this table, so no older version has to stay.
                self.table.optimize(cleanup_older_than=timedelta(0))
            wanted = self.vector_index
            if wanted and "vector" not in built and len(self._number) >= wanted.from_rows:
                from lancedb.index import IvfFlat

                cells = IvfFlat(distance_type="l2", num_partitions=isqrt(len(self._number)))
                self.table.create_index("vector", config=cells)
        self._waiting = 0

    def remove(self, identity: str) -> None:
        """Delete the row of an id; its number stays taken. Its words count until the table is compacted."""
        self.table.delete(f"id = {quoted(identity)}")
        self._number.pop(identity, None)
        self._waiting += 1

    def expect(self, vectors: np.ndarray) -> None:
        """Nothing to make ready: a live table is asked query by query."""

    def view(self, query: Query) -> LanceView:
        """A query on the table as it stands."""
        return LanceView(self, query)

    def close(self) -> None:
        """Delete the temporary folder, if it is one."""
        if self._temporary:
            self._temporary.cleanup()

    def search_text(self, query: Query, where: Filter, limit: int) -> list[Hit]:
        """The text lane: BM25 over ``index_text``, score descending, then id."""
        from lancedb.query import MatchQuery

        if not self.rows or not query.tokens:
            return []

        def fetch(count: int) -> pa.Table:
            search = self.table.search(MatchQuery(searchable(query.text), "index_text"), query_type="fts")
            return _filtered(search, where).select(["id", "_score"]).limit(count).to_arrow()

        found = _past_the_tie(fetch, "_score", limit)
        numbers = [self._number[identity] for identity in found["id"].to_pylist()]
        hits = [Hit(number, score) for number, score in zip(numbers, found["_score"].to_pylist(), strict=True)]
        return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))[:limit]

    def search_vectors(self, query: Query, where: Filter, limit: int) -> list[Hit]:
        """The vector lane.

        Squared L2, computed once more from the vectors that came back, so that its last bits are ours.
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

        found = _past_the_tie(fetch, "_distance", limit)
        if not found.num_rows:
            return []
        stored = found["vector"].combine_chunks().flatten().to_numpy().reshape(found.num_rows, -1).astype(np.float64)
        difference = stored - vector.astype(np.float64)
        distances = np.einsum("ij,ij->i", difference, difference)
        numbers = [self._number[identity] for identity in found["id"].to_pylist()]
        hits = [
            Hit(*values) for values in zip(numbers, vector_score(distances).tolist(), distances.tolist(), strict=True)
        ]
        return sorted(hits, key=lambda hit: (-hit.score, id_order(self.rows[hit.row].id)))[:limit]


class LanceView:
    """One query; each filter is searched once, whoever asks."""

    def __init__(self, store: LanceStore, query: Query) -> None:
        self._store, self._query = store, query
        self._found: dict[tuple[Filter, int], Lanes] = {}

    def search(self, where: Filter, limit: int) -> Lanes:
        """Both lanes under ``where``."""
        found = self._found.get((where, limit))
        if found is None:
            started = time.perf_counter_ns()
            fts = self._store.search_text(self._query, where, limit)
            vec = self._store.search_vectors(self._query, where, limit)
            found = self._found[where, limit] = Lanes(fts, vec, time.perf_counter_ns() - started)
        return found


def _past_the_tie(fetch: Any, column: str, limit: int) -> pa.Table:
    """Fetch until the last hit is clearly worse than the one at ``limit``, or there are no more."""
    count = limit + SLACK
    while True:
        found = fetch(count)
        values = sorted(found[column].to_pylist(), reverse=column == "_score")
        if len(values) < count or abs(values[-1] - values[limit - 1]) > TIE_BAND:
            return found
        count *= 2


def _filtered(search: Any, where: Filter) -> Any:
    clauses = []
    if where.scope is not None:
        clauses.append(f"scope = {quoted(where.scope)}")
    if where.labels is not None:
        clauses.append(f"importance_label IN ({', '.join(map(quoted, where.labels))})")
    return search.where(" AND ".join(clauses), prefilter=True) if clauses else search


def quoted(text: str) -> str:
    """A text as a literal of a filter."""
    return "'" + text.replace("'", "''") + "'"
