"""Retrievers: a store that is fed with memories as they are born, and asked with cached vectors and tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from lab.engine.clamp import Clamp, clamp
from lab.engine.docs.lane import DocsLane
from lab.engine.memory import Row
from lab.engine.recall.turn import Memories
from lab.engine.store.contract import Query, Store, View
from lab.engine.store.exact import ExactStore
from lab.engine.store.lance import LanceStore
from lab.engine.store.listing import Listing
from lab.engine.store.tokens import TextSettings, Words
from lab.errors import UnusableInput
from lab.systems.contract import Request
from lab.systems.faults import NO_VECTOR, FaultyView

if TYPE_CHECKING:
    import numpy as np

STORES = ("exact", "lancedb")


class VectorsOf(Protocol):
    """Vectors of texts. Texts are prepared in one go and asked for one by one."""

    def prepare(self, texts: Sequence[str], announce: Callable[[str], None] | None = None) -> int:
        """Make ready; return how many texts were embedded. ``announce(done, total)`` hears of progress."""
        ...

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[len(texts), dimension]``; all of them must have been prepared."""
        ...


class StoreRetriever:
    """A store with the vectors and the tokens it is fed and asked with. All texts must have been prepared."""

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
    ) -> None:
        """``as_stored``: a row that was stored without an embedding has the zero vector, as in the plugin's table.

        Otherwise it is embedded as any other.
        """
        self.store, self.vectors, self.tokens = store, vectors, tokens
        self._as_stored = as_stored
        self._limits, self._docs, self._writes = limits or Clamp(), docs, writes
        self._by_id: dict[str, Row] = {}
        self._listing = Listing()
        self._gone: set[str] = set()

    def observe(self, rows: Sequence[Row]) -> None:
        """Add memories born since the last call."""
        self._by_id.update((row.id, row) for row in rows)
        self._listing.add(rows)
        texts = [row.index_text for row in rows]
        vectors = self._vectors_of(texts)
        if self._as_stored and not all(row.embedded for row in rows):
            vectors = vectors.copy()
            vectors[[not row.embedded for row in rows]] = 0.0
        self.store.add(rows, vectors, self.tokens.of(texts))

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
            self.store.expect(self._vectors_of(texts))

    def retrieve(self, request: Request) -> Memories:
        """A view of the store for the request's text, less what the request's faults take from it."""
        reason = next((NO_VECTOR[fault] for fault in NO_VECTOR if fault in request.faults), None)
        vector = None if reason else self._vectors_of([request.text])[0]
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

    def _vectors_of(self, texts: Sequence[str]) -> np.ndarray:
        return self.vectors.of([embedded_text(text, self._limits) for text in texts])

    def _write(self, row: Row) -> None:
        """Keep a row that recall itself wrote, in the place of the one before."""
        texts = [row.index_text]
        self.vectors.prepare([embedded_text(row.index_text, self._limits)])
        self.tokens.prepare(texts)
        if row.id in self._by_id:
            self._listing.remove(self._by_id[row.id])
            self.store.remove(row.id)
        self.observe([row])


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
