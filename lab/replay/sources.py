"""What a conversation is replayed with besides its recording: vectors, words and documents.

The caches hold them for all conversations; a task is handed those of its own, so that whoever works on it needs no
cache, and has the vectors that this machine computed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.embedding.cache import cache_folder
from lab.embedding.embedder import Embedder, embedder_key
from lab.embedding.vectors import Vectors
from lab.engine.docs.index import DocsIndex
from lab.engine.docs.lane import DocsLane, open_docs
from lab.engine.settings import DocsSettings
from lab.engine.store.tokens import TextSettings, Words, words_under
from lab.errors import CannotMeasure, CannotWrite
from lab.files import digest
from lab.recordings.model import Recording
from lab.replay.plan import Plan
from lab.systems.contract import Retrieval
from lab.systems.retrievers import StoreRetriever, VectorsOf, embedded_text, make_store

if TYPE_CHECKING:
    import numpy as np

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Sources:
    """Vectors and words of texts, and documents."""

    embedder: Embedder
    vectors: VectorsOf
    words: dict[TextSettings, Words]
    docs: dict[DocsSettings, DocsLane]

    def retriever(self, retrieval: Retrieval, store: str) -> StoreRetriever:
        """An empty store of the kind ``store``, ready to be fed and asked."""
        return StoreRetriever(
            make_store(store, self.embedder.dimension, retrieval.text),
            self.vectors,
            self.words[retrieval.text],
            retrieval.clamp,
            self.docs[retrieval.docs] if retrieval.docs else None,
            writes=retrieval.owner is not None,
            as_stored=retrieval.text.lane == "scan",
        )


def open_sources(plan: Plan) -> Sources:
    """Open the caches that a plan reads."""
    vectors = Vectors(plan.embedder)
    asked = plan.retrievals()
    words = {settings: words_under(settings) for settings in dict.fromkeys(one.text for one in asked)}
    wanted = dict.fromkeys(one.docs for one in asked if one.docs)
    return Sources(plan.embedder, vectors, words, {one: _docs_lane(one, plan.embedder, vectors) for one in wanted})


def told_documents(lane: DocsLane) -> str:
    """How many documents a lane may cite, or why none."""
    found = lane.index.last_ingest if lane.index else {}
    if found.get("skipReason"):
        return f"documents: none ({found['skipReason']}); docsColdLane.sourceRoots are paths from the current folder"
    missing = found.get("missingRoots") or ()
    absent = f"; no such source root: {', '.join(missing)}" if missing else ""
    return f"documents: {found.get('filesMatched', 0)} files{absent}"


def _docs_lane(settings: DocsSettings, embedder: Embedder, vectors: VectorsOf) -> DocsLane:
    roots = digest([settings.source_roots, settings.source_globs, settings.max_chunk_chars])[:16]
    model = embedder_key(embedder)
    place = cache_folder() / "docs" / f"{model}-{roots}.sqlite"
    try:
        return DocsLane(settings, open_docs(settings, place, _embed_with(vectors), model=model))
    except sqlite3.Error as error:
        raise CannotMeasure(f"{place}: the documents index cannot be brought up to date: {error}") from None


def _embed_with(vectors: VectorsOf) -> Callable[[Sequence[str]], np.ndarray]:
    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts)
        return vectors.of(texts)

    return embed


def prepare(plan: Plan, recordings: Sequence[Recording], sources: Sources, announce: Announce) -> int:
    """Embed and tokenise every text that the recordings need; return how many texts were embedded."""
    texts = [text for recording in recordings for text in texts_of(plan, recording)]
    wanted = [text for recording in recordings for text in _embedded_of(plan, recording)]
    try:
        embedded = sources.vectors.prepare(list(dict.fromkeys(wanted)), announce)
        for words in sources.words.values():
            words.prepare(texts)
    except CannotWrite as error:
        raise CannotWrite(f"{error}; LAB_CACHE_DIR names another folder for the cache") from error
    return embedded


def texts_of(plan: Plan, recording: Recording) -> list[str]:
    """Everything that is searched, or searched for, in one conversation."""
    return [memory.index_text for memory in recording.memories] + _asked_of(plan, recording)


def _asked_of(plan: Plan, recording: Recording) -> list[str]:
    return [moment.text for moment in plan.moments_of(recording)]


def _embedded_of(plan: Plan, recording: Recording) -> list[str]:
    """The texts of a conversation as they are embedded, each once. Documents are asked for with the whole prompt."""
    asked = plan.retrievals()
    texts = texts_of(plan, recording)
    limits = dict.fromkeys(one.clamp for one in asked)
    whole = _asked_of(plan, recording) if any(one.docs for one in asked) else []
    return list(dict.fromkeys([*(embedded_text(text, limit) for limit in limits for text in texts), *whole]))


class HandedVectors:
    """The vectors of some texts. Another text's come from the cache of wherever it is asked for.

    That is what recall itself writes: the text of a digest is known only when it is made.
    """

    def __init__(self, embedder: Embedder, texts: Sequence[str], source: VectorsOf) -> None:
        self._embedder = embedder
        self._rows = {text: row for row, text in enumerate(texts)}
        self._matrix = source.of(texts)
        self._source: VectorsOf | None = source

    def __getstate__(self) -> dict[str, Any]:
        """What travels: the vectors, and not the cache that they came from."""
        return {**self.__dict__, "_source": None}

    def prepare(self, texts: Sequence[str], announce: Announce | None = None) -> int:
        """Make ready what was not handed over; return how many texts were embedded for it."""
        others = [text for text in texts if text not in self._rows]
        return self._others().prepare(others, announce) if others else 0

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[len(texts), dimension]``."""
        import numpy as np

        rows = [self._rows.get(text, -1) for text in texts]
        others = [text for text, row in zip(texts, rows, strict=True) if row < 0]
        found: np.ndarray = (
            self._matrix[rows] if len(self._matrix) else np.empty((len(texts), self._embedder.dimension), np.float32)
        )
        if others:
            found[[row < 0 for row in rows]] = self._others().of(others)
        return found

    def _others(self) -> VectorsOf:
        if self._source is None:
            self._source = Vectors(self._embedder)
        return self._source


class HandedWords:
    """The words of some texts. Another text's come from the cache of wherever it is asked for."""

    def __init__(self, settings: TextSettings, texts: Sequence[str], source: Words) -> None:
        self._settings = settings
        self._words = dict(zip(texts, source.of(texts), strict=True))
        self._source: Words | None = source

    def __getstate__(self) -> dict[str, Any]:
        """What travels: the words, and not the cache that they came from."""
        return {**self.__dict__, "_source": None}

    def prepare(self, texts: Sequence[str]) -> int:
        """Make ready what was not handed over; return how many texts were new."""
        others = [text for text in texts if text not in self._words]
        return self._others().prepare(others) if others else 0

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Words of each text, in its order."""
        return [self._words[text] if text in self._words else self._others().of([text])[0] for text in texts]

    def _others(self) -> Words:
        if self._source is None:
            self._source = words_under(self._settings)
        return self._source


@dataclass(frozen=True, slots=True)
class Handed:
    """The sources of one conversation, in a form that can be sent anywhere."""

    embedder: Embedder
    vectors: HandedVectors
    words: dict[TextSettings, HandedWords]
    docs: dict[DocsSettings, bytes]

    def open(self) -> Sources:
        """The sources, ready to be asked."""
        model, embed = embedder_key(self.embedder) if self.docs else "", _embed_with(self.vectors)
        lanes = {
            settings: DocsLane(settings, DocsIndex(Path(":memory:"), embed, model, packed=data))
            for settings, data in self.docs.items()
        }
        return Sources(self.embedder, self.vectors, dict(self.words), lanes)


def hand(plan: Plan, recording: Recording, sources: Sources, *, texts: bool = True) -> Handed:
    """What one conversation needs of the sources, all of them prepared. Without ``texts``, documents alone."""
    own = list(dict.fromkeys(texts_of(plan, recording))) if texts else []
    return Handed(
        sources.embedder,
        HandedVectors(sources.embedder, _embedded_of(plan, recording) if texts else [], sources.vectors),
        {settings: HandedWords(settings, own, words) for settings, words in sources.words.items()},
        {settings: lane.index.packed() for settings, lane in sources.docs.items() if lane.index},
    )
