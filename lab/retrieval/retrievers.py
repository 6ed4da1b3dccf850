"""Retrievers: a store that receives memories as they appear and is queried with cached vectors and tokens.

Systems see the candidates of one query: a view of the store, and its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

from lab.base.errors import UnusableInput
from lab.base.formatting import choices
from lab.base.utf16 import WHITESPACE
from lab.embedding.embedder import DOCUMENT, QUERY, VectorsOf
from lab.embedding.vectors import StoredVectors
from lab.retrieval.clamp import Clamp, clamp
from lab.retrieval.contract import Filter, Query, Row, Store, View
from lab.retrieval.exact import ExactStore
from lab.retrieval.faults import NO_FAULTS, NO_VECTOR, Faults, FaultyView
from lab.retrieval.fusion import Fusion
from lab.retrieval.lance import LanceStore
from lab.retrieval.tokens import TextSettings, Words

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Search settings. Arms with equal settings share candidates."""

    text: TextSettings = field(default_factory=TextSettings)
    clamp: Clamp = field(default_factory=Clamp)


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The content of the store at one query.

    ``shared`` caches results that arms with the same candidates share, by filter, depth and fusion. ``no_vector`` is
    the reason why there is no query vector; None if there is one. ``gone`` are the ids of forgotten rows: they keep
    their numbers among ``rows``, and no search returns them.
    """

    view: View
    rows: Sequence[Row]
    by_id: Mapping[str, Row]
    shared: MutableMapping[tuple[Filter, int, Fusion], Any] = field(default_factory=dict)
    no_vector: str | None = None
    gone: frozenset[str] = frozenset()

    @property
    def present(self) -> Sequence[Row]:
        """The rows that are not forgotten."""
        return [row for row in self.rows if row.id not in self.gone] if self.gone else self.rows


STORES = ("exact", "lancedb")


class StoreRetriever:
    """A store together with the vectors and words that rows are added and queried with.

    Prepare texts in bulk; those not prepared are embedded one by one. Rows with a vector in ``stored`` are added with
    that vector.
    """

    def __init__(
        self,
        store: Store,
        vectors: VectorsOf,
        tokens: Words,
        limits: Clamp | None = None,
        *,
        as_stored: bool = False,
        stored: StoredVectors | None = None,
    ) -> None:
        """Wrap a store.

        ``as_stored``: rows that were stored without an embedding get the zero vector, as in the plugin; otherwise they
        are embedded like all others.
        """
        self.store, self.vectors, self.tokens = store, vectors, tokens
        self._as_stored = as_stored
        self._stored = stored
        self._limits = limits or Clamp()
        self._by_id: dict[str, Row] = {}
        self._gone: set[str] = set()

    def add(self, rows: Sequence[Row]) -> None:
        """Add new rows."""
        self._by_id.update((row.id, row) for row in rows)
        if isinstance(self.store, ExactStore):
            rows = rows[self.store.take(rows) :]
        vectors = row_vectors(rows, self._limits, self.vectors, self._stored, as_stored=self._as_stored)
        self.store.add(rows, vectors, self.tokens.of([row.index_text for row in rows]))

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows whose texts could not be prepared. A row with a known id replaces the earlier one."""
        texts = [row.index_text for row in rows]
        self.vectors.prepare(
            [embedded_text(row.index_text, self._limits) for row in rows if not (self._as_stored and not row.embedded)]
        )
        self.tokens.prepare(texts)
        for row in rows:
            if row.id in self._by_id:
                self.store.remove(row.id)
        self.add(rows)

    def remove(self, rows: Sequence[Row]) -> None:
        """Remove rows from the store."""
        for row in rows:
            self.store.remove(row.id)
            self._gone.add(row.id)
        self.store.refresh()

    def vector(self, text: str) -> np.ndarray:
        """Return the vector of a text as a document, which need not have been prepared."""
        embedded = embedded_text(text, self._limits)
        self.vectors.prepare([embedded])
        vector: np.ndarray = self.vectors.of([embedded])[0]
        return vector

    def known(self, identity: str) -> Row | None:
        """Return the row of an id, forgotten or not; None if there never was one."""
        return self._by_id.get(identity)

    def nearest(self, vector: np.ndarray, limit: int, scope: str | None = None) -> list[tuple[Row, float]]:
        """Return the rows of a scope nearest to a vector, each with its distance."""
        hits = self.store.view(Query("", [], vector)).search(Filter(scope), limit).vec
        return [(self.store.rows[hit.row], hit.distance) for hit in hits]

    def expect(self, texts: Sequence[str]) -> None:
        """Let the store score many turns at once, if it can."""
        if texts:
            self.store.expect(self._queries(texts))

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        """Return a view of the store for a text, with the faults applied."""
        reason = next((NO_VECTOR[fault] for fault in NO_VECTOR if fault in faults), None)
        vector = None if reason else self._queries([text])[0]
        view: View = self.store.view(Query(text, self.tokens.of([text])[0], vector))
        if faults:
            view = FaultyView(view, faults)
        return QueryContext(view, self.store.rows, self._by_id, no_vector=reason, gone=frozenset(self._gone))

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors.of([query_text(text, self._limits) for text in texts], QUERY)


def row_vectors(
    rows: Sequence[Row],
    limits: Clamp,
    vectors: VectorsOf,
    stored: StoredVectors | None = None,
    *,
    as_stored: bool = False,
) -> np.ndarray:
    """Return the stored vector of each row, or that of its text: float32 ``[len(rows), dimension]``.

    With ``as_stored``, a row that was stored without an embedding gets the zero vector, as in the plugin's table. A row
    that was written since the store was read has no stored vector, though one there may have its key.
    """
    import numpy as np

    known = np.array([stored is not None and row.position is not None and row.key in stored for row in rows], bool)
    if stored is not None and known.all():
        return stored.of([row.key for row in rows])
    zero = np.array([as_stored and not row.embedded for row in rows], bool) & ~known
    computed = vectors.of([embedded_text(row.index_text, limits) for row in compress(rows, ~(known | zero))], DOCUMENT)
    if len(computed) == len(rows):
        return computed
    result = np.zeros((len(rows), vectors.dimension), np.float32)
    result[~(known | zero)] = computed
    if stored is not None and known.any():
        result[known] = stored.of([row.key for row in compress(rows, known)])
    return result


def embedded_text(text: str, limits: Clamp) -> str:
    """Return the part of a text that is embedded (E-50). Stored and injected texts are never clamped."""
    # A character takes at most two UTF-16 units, so most texts need no counting.
    if 2 * len(text) <= limits.max_chars and not limits.max_bytes:
        return text
    return clamp(text, limits).text


def query_text(text: str, limits: Clamp) -> str:
    """Return the part of a prompt that is embedded: white space around it is trimmed before it is clamped (E-31)."""
    start, end, most = 0, len(text), max(1, int(limits.max_chars))
    while start < end and text[start] in WHITESPACE:
        start += 1
    while start < end and text[end - 1] in WHITESPACE:
        end -= 1
    # Of a text that is clamped, only its ends are needed; a copy of it may take hundreds of megabytes.
    kept = text[start:end] if end - start <= 2 * most else text[start : start + most] + text[end - most : end]
    return embedded_text(kept, limits)


def make_store(kind: str, dimension: int, settings: TextSettings, base: Store | None = None) -> Store:
    """Return an empty store: ``exact`` for measuring quality, ``lancedb`` for the live path.

    An exact store takes the rows that it shares with a ``base`` from there.
    """
    if kind == "exact":
        return ExactStore(dimension, settings, base if isinstance(base, ExactStore) else None)
    if kind == "lancedb":
        if settings.lane == "scan":
            raise UnusableInput(
                "profile upstream searches its text lane without an index, as the plugin does; only the exact store "
                "supports this: use --store exact"
            )
        return LanceStore(dimension, settings)
    raise UnusableInput(f"unknown store {kind!r}; {choices(kind, STORES)}")
