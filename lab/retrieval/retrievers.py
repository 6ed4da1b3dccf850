"""Retrievers: a store that is fed with memories as they are born, and asked with cached vectors and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lab.embedding.embedder import DOCUMENT, QUERY, Role
from lab.embedding.stored import StoredVectors
from lab.errors import UnusableInput
from lab.retrieval.clamp import Clamp, clamp
from lab.retrieval.contract import Query, Store, View
from lab.retrieval.exact import ExactStore
from lab.retrieval.faults import NO_FAULTS, NO_VECTOR, Faults, FaultyView
from lab.retrieval.lance import LanceStore
from lab.retrieval.query_context import QueryContext
from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings, Words

if TYPE_CHECKING:
    import numpy as np

STORES = ("exact", "lancedb")


class VectorsOf(Protocol):
    """Vectors of texts in a role. Texts are prepared in one go and asked for one by one."""

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        ...

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Make ready; return how many texts were embedded. ``announce`` hears of progress, in sentences."""
        ...

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """float32 ``[len(texts), dimension]``; all of them must have been prepared."""
        ...


class StoreRetriever:
    """A store with the vectors and the words it is fed and asked with.

    Texts are best prepared in one go; what was not prepared by then is, one by one. Rows that ``stored`` has vectors of
    are added with these.
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
        """``as_stored``: a row that was stored without an embedding has the zero vector, as in the plugin's table.

        Otherwise it is embedded as any other.
        """
        self.store, self.vectors, self.tokens = store, vectors, tokens
        self._as_stored = as_stored
        self._stored = stored
        self._limits = limits or Clamp()
        self._by_id: dict[str, Row] = {}
        self._gone: set[str] = set()

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows that are new."""
        self._by_id.update((row.id, row) for row in rows)
        vectors = row_vectors(rows, self._limits, self.vectors, self._stored, as_stored=self._as_stored)
        self.store.add(rows, vectors, self.tokens.of([row.index_text for row in rows]))

    def write(self, rows: Sequence[Row]) -> None:
        """Add rows whose texts nobody could prepare; a row with a known id takes the place of the one before."""
        texts = [row.index_text for row in rows]
        self.vectors.prepare([embedded_text(text, self._limits) for text in texts])
        self.tokens.prepare(texts)
        for row in rows:
            if row.id in self._by_id:
                self.store.remove(row.id)
        self.add(rows)

    def remove(self, rows: Sequence[Row]) -> None:
        """Take rows out of the store."""
        for row in rows:
            self.store.remove(row.id)
            self._gone.add(row.id)
        self.store.settle()

    def known(self, identity: str) -> Row | None:
        """The row of an id, forgotten or not; None where there never was one."""
        return self._by_id.get(identity)

    def expect(self, texts: Sequence[str]) -> None:
        """Let the store score many turns at once, if it can."""
        if texts:
            self.store.expect(self._queries(texts))

    def retrieve(self, text: str, faults: Faults = NO_FAULTS) -> QueryContext:
        """A view of the store for a text, less what the faults take from it."""
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
        return self.vectors.of([embedded_text(text, self._limits) for text in texts], QUERY)


def row_vectors(
    rows: Sequence[Row],
    limits: Clamp,
    vectors: VectorsOf,
    stored: StoredVectors | None = None,
    *,
    as_stored: bool = False,
) -> np.ndarray:
    """float32 ``[len(rows), dimension]``: of each row the vector that a store holds of it, else that of its text.

    With ``as_stored``, a row that was stored without an embedding has the zero vector, as in the plugin's table.
    """
    texts = [embedded_text(row.index_text, limits) for row in rows if stored is None or row.key not in stored]
    found = vectors.of(texts, DOCUMENT)
    if stored is not None and rows:
        found = stored.of([row.key for row in rows], found)
    if as_stored and not all(row.embedded for row in rows):
        found = found.copy()
        found[[not row.embedded for row in rows]] = 0.0
    return found


def embedded_text(text: str, limits: Clamp) -> str:
    """What of a text is embedded (E-50). What is stored and injected is never clamped."""
    # A character takes two units at most, so most texts need no counting.
    if 2 * len(text) <= limits.max_chars and not limits.max_bytes:
        return text
    return clamp(text, limits).text


def make_store(kind: str, dimension: int, settings: TextSettings) -> Store:
    """An empty store: ``exact`` for questions of quality, ``lancedb`` for the live path."""
    if kind == "exact":
        return ExactStore(dimension, settings)
    if kind == "lancedb":
        if settings.lane == "scan":
            raise UnusableInput(
                "profile upstream scans its text lane as the plugin's LanceDB does without an index; "
                "only the exact store can, so use --store exact"
            )
        return LanceStore(dimension, settings)
    raise UnusableInput(f"unknown store {kind!r}; known: {', '.join(STORES)}")
