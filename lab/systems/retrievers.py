"""Retrievers: a store that is fed with memories as they are born, and asked with cached vectors and tokens."""

from __future__ import annotations

from collections.abc import Sequence

from lab.embedding.vectors import Vectors
from lab.engine.memory import Row
from lab.engine.store.contract import Query, Store
from lab.engine.store.exact import ExactStore
from lab.engine.store.lance import LanceStore
from lab.engine.store.tokens import TextSettings, Words
from lab.errors import UnusableInput
from lab.systems.contract import Candidates, Request

STORES = ("exact", "lancedb")


class StoreRetriever:
    """A store with the vectors and the tokens it is fed and asked with. All texts must have been prepared."""

    def __init__(self, store: Store, vectors: Vectors, tokens: Words) -> None:
        self.store, self.vectors, self.tokens = store, vectors, tokens
        self._by_id: dict[str, Row] = {}

    def observe(self, rows: Sequence[Row]) -> None:
        """Add memories born since the last call."""
        texts = [row.index_text for row in rows]
        self._by_id.update((row.id, row) for row in rows)
        self.store.add(rows, self.vectors.of(texts), self.tokens.of(texts))

    def retrieve(self, request: Request) -> Candidates:
        """A view of the store for the request's text."""
        query = Query(request.text, self.tokens.of([request.text])[0], self.vectors.of([request.text])[0])
        return Candidates(self.store.view(query), self.store.rows, self._by_id)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


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
