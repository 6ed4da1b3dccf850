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
from lab.retrieval.faults import NO_VECTOR, FaultyView
from lab.retrieval.lance import LanceStore
from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings, Words
from lab.systems.contract import Request
from lab.systems.openclaw.docs.lane import DocsLane
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.recall.turn import Memories

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
    """A store with the vectors and the tokens it is fed and asked with. All texts must have been prepared.

    Memories that ``stored`` has vectors of are added with these.
    """

    def __init__(
        self,
        store: Store,
        vectors: VectorsOf,
        tokens: Words,
        limits: Clamp | None = None,
        docs: DocsLane | None = None,
        *,
        writes: bool = False,
        as_stored: bool = False,
        stored: StoredVectors | None = None,
    ) -> None:
        """``as_stored``: a row that was stored without an embedding has the zero vector, as in the plugin's table.

        Otherwise it is embedded as any other.
        """
        self.store, self.vectors, self.tokens = store, vectors, tokens
        self._as_stored = as_stored
        self._stored = stored
        self._limits, self._docs, self._writes = limits or Clamp(), docs, writes
        self._by_id: dict[str, Row] = {}
        self._listing = Listing()
        self._gone: set[str] = set()

    def observe(self, rows: Sequence[Row]) -> None:
        """Add memories born since the last call."""
        self._by_id.update((row.id, row) for row in rows)
        self._listing.add(rows)
        vectors = row_vectors(rows, self._limits, self.vectors, self._stored, as_stored=self._as_stored)
        self.store.add(rows, vectors, self.tokens.of([row.index_text for row in rows]))

    def forget(self, rows: Sequence[Row]) -> None:
        """Take memories out of the store and of every list of them."""
        for row in rows:
            self._listing.remove(row)
            self.store.remove(row.id)
            self._gone.add(row.id)
        self.store.settle()

    def expect(self, texts: Sequence[str]) -> None:
        """Let the store score many turns at once, if it can."""
        if texts:
            self.store.expect(self._queries(texts))

    def retrieve(self, request: Request) -> Memories:
        """A view of the store for the request's text, less what the request's faults take from it."""
        reason = next((NO_VECTOR[fault] for fault in NO_VECTOR if fault in request.faults), None)
        vector = None if reason else self._queries([request.text])[0]
        view: View = self.store.view(Query(request.text, self.tokens.of([request.text])[0], vector))
        docs = self._docs
        if request.faults:
            view = FaultyView(view, request.faults)
            docs = DocsLane(docs.settings, None) if docs and "docs_missing" in request.faults else docs
        write = self._write if self._writes else None
        gone = frozenset(self._gone)
        return Memories(
            view, self.store.rows, self._by_id, self._listing, no_vector=reason, docs=docs, write=write, gone=gone
        )

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def _queries(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors.of([embedded_text(text, self._limits) for text in texts], QUERY)

    def _write(self, row: Row) -> None:
        """Keep a row that recall itself wrote, in the place of the one before."""
        texts = [row.index_text]
        self.vectors.prepare([embedded_text(row.index_text, self._limits)])
        self.tokens.prepare(texts)
        if row.id in self._by_id:
            self._listing.remove(self._by_id[row.id])
            self.store.remove(row.id)
        self.observe([row])


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
    """What of a text is embedded (spec 14.1). What is stored and injected is never clamped."""
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
