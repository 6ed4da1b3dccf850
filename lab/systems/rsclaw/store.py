"""The documents of one conversation, and the search over them: put, refresh, pin, delete, touch (RS-5, RS-8, RS-12)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from lab.recordings.model import Memory
from lab.retrieval.contract import Row, cosine_of
from lab.retrieval.retrievers import StoreRetriever
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import (
    Defaults,
    Document,
    document_id,
    importance_of,
    kind_of,
    overview,
    put_defaults,
    tier_after,
)

# The cosine from which a text is taken for one that is stored, and how many neighbours of any kind are compared.
SAME_COSINE, NEIGHBOURS = 0.92, 10


class Draft(NamedTuple):
    """A document to store. ``key`` names it in the run; ``home`` is the scope of its turn in the recording."""

    kind: str
    text: str
    defaults: Defaults
    key: str
    scope: str
    home: str
    sources: tuple[str, ...] = ()


class Documents:
    """All documents by id, and by the keys of the lab. They are searched by ``search``."""

    def __init__(self, search: StoreRetriever, settings: Settings) -> None:
        self.by_id: dict[str, Document] = {}
        self.by_key: dict[str, Document] = {}
        self.search = search
        self._settings = settings

    def remember(self, memories: Iterable[Memory]) -> None:
        """Store given memories as of their creation (RS-4). Equal texts of a scope and kind are one document."""
        rows: list[Row] = []
        for memory in memories:
            kind, at = kind_of(memory.category), memory.created_at // 1000
            importance = importance_of(memory, by_label=self._settings.importance == "label")
            defaults = put_defaults(kind)._replace(importance=importance)
            draft = Draft(kind, memory.text, defaults, memory.key, memory.scope, memory.scope, (memory.key,))
            known = self.by_id.get(document_id(draft.scope, kind, draft.text))
            if known is not None:
                self._refresh(known, draft, at)
                known.keys.append(memory.key)
                self.by_key[memory.key] = known
            else:
                row = _row(self._new(draft, at), memory.created_at)
                rows.append(replace(row, index_text=memory.index_text))
        if rows:
            self.search.write(rows)

    def forget(self, keys: Sequence[str]) -> None:
        """Remove given memories; a document goes with the last of them."""
        for key in keys:
            document = self.by_key.pop(key, None)
            if document is not None:
                document.keys.remove(key)
                if not document.keys:
                    self.delete(document)

    def put(self, draft: Draft, now: int, *, similar: bool) -> tuple[Document, bool]:
        """Store a document at a time in seconds, or refresh an equal one; return it and whether it is new (RS-23).

        ``similar``: a document of the same scope and kind with a cosine of at least .92 is refreshed too.
        """
        identity = document_id(draft.scope, draft.kind, draft.text)
        known = self.by_id.get(identity) or (self._similar(draft) if similar else None)
        if known is not None:
            self._refresh(known, draft, now)
            known.sources = tuple(dict.fromkeys((*known.sources, *draft.sources)))
            return known, False
        document = self._new(draft, now)
        self.search.write([_row(document, now * 1000)])
        return document, True

    def delete(self, document: Document) -> None:
        """Remove a document from the store and from the search."""
        del self.by_id[document.id]
        for key in document.keys:
            self.by_key.pop(key, None)
        row = self.search.known(document.id)
        if row is not None:
            self.search.remove([row])

    def pin(self, document: Document, now: int, *, pinned: bool) -> None:
        """Pin a document, which puts it into the core tier for as long as it is pinned, or unpin it."""
        document.pinned = pinned
        self._settle(document, now)
        document.save()

    def touch(self, documents: Iterable[Document], now: int) -> None:
        """Count an access of each document, and decide its tier again (RS-12)."""
        for document in documents:
            document.accessed_at = now
            document.access_count += 1
            self._settle(document, now)
            if self._settings.persist_touch:
                document.save()

    def restart(self) -> None:
        """Forget what was never written to disk: touches that are not persisted."""
        for document in self.by_id.values():
            document.restore()

    def tiers(self, scope: str | None) -> dict[str, int]:
        """Return the number of documents in each tier of a scope (None: of all)."""
        counts: dict[str, int] = {}
        for document in self.by_id.values():
            if scope in (None, document.scope):
                counts[document.tier] = counts.get(document.tier, 0) + 1
        return dict(sorted(counts.items()))

    def _new(self, draft: Draft, at: int) -> Document:
        importance, tier, pinned = draft.defaults
        document = Document(
            document_id(draft.scope, draft.kind, draft.text),
            draft.scope,
            draft.kind,
            draft.text,
            importance,
            tier,
            pinned,
            at,
            at,
            [draft.key],
            draft.home,
            draft.sources,
            overview_text=overview(draft.text, last=self._settings.last_sentence),
        )
        self._settle(document, at)
        document.save()
        self.by_id[document.id] = self.by_key[draft.key] = document
        return document

    def _refresh(self, document: Document, draft: Draft, now: int) -> None:
        document.accessed_at = max(document.accessed_at, now)
        document.importance = max(document.importance, draft.defaults.importance)
        self._settle(document, now)
        document.save()

    def _settle(self, document: Document, now: int) -> None:
        settings = self._settings
        document.tier = tier_after(
            document.vitals(now), settings.promotion, core_demotion=settings.core_demotion, f32=settings.f32
        )

    def _similar(self, draft: Draft) -> Document | None:
        for row, distance in self.search.nearest(self.search.vector(draft.text), NEIGHBOURS, draft.scope):
            document = self.by_id.get(row.id)
            if document is not None and document.kind == draft.kind and cosine_of(distance) >= SAME_COSINE:
                return document
        return None


def _row(document: Document, created_ms: int) -> Row:
    text = document.text
    return Row(document.id, document.keys[0], text, text, created_ms, scope=document.scope)
