"""Opening the documents of a replay: the index is brought up to date once, and every worker has a copy of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lab.embedding.cache import cache_folder
from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, role_key
from lab.errors import CannotMeasure, LabError
from lab.files import digest, private_folder
from lab.retrieval.retrievers import VectorsOf
from lab.systems.kit import Workshop
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane, open_docs
from lab.systems.openclaw.docs.vectors import Embed

if TYPE_CHECKING:
    import numpy as np


def open_lane(settings: DocsSettings, workshop: Workshop) -> DocsLane:
    """Bring the index in the cache up to date, and say how many documents it holds."""
    roots = digest([settings.source_roots, settings.source_globs, settings.max_chunk_chars])[:16]
    model = role_key(workshop.embedder, DOCUMENT)
    place = cache_folder() / "docs" / f"{model}-{roots}.sqlite"
    with suppress(OSError):  # what cannot be made is told where it is opened
        private_folder(place.parent)
    embed, failures = _embed_with(workshop.vectors, DOCUMENT), list[LabError]()

    def heard(texts: Sequence[str]) -> np.ndarray:
        try:
            return embed(texts)
        except LabError as error:
            failures.append(error)
            raise

    try:
        index = open_docs(settings, place, heard, model=model, ask=_embed_with(workshop.vectors, QUERY))
    except sqlite3.Error as error:
        raise CannotMeasure(f"{place}: the documents index cannot be brought up to date: {error}") from None
    if failures:
        # The engine goes on without vectors; a measurement would be of another engine.
        raise failures[0]
    lane = DocsLane(settings, index)
    workshop.announce(_told(lane))
    return lane


def packed_lane(settings: DocsSettings, packed: bytes | None, embedder: Embedder, vectors: VectorsOf) -> DocsLane:
    """The same from a copy; nothing is embedded but questions."""
    if packed is None:
        return DocsLane(settings, None)
    embed, ask = _embed_with(vectors, DOCUMENT), _embed_with(vectors, QUERY)
    return DocsLane(settings, DocsIndex(Path(":memory:"), embed, role_key(embedder, DOCUMENT), packed=packed, ask=ask))


def _told(lane: DocsLane) -> str:
    """How many documents a lane may cite, or why none."""
    found = lane.index.last_ingest if lane.index else {}
    if found.get("skipReason"):
        return f"documents: none ({found['skipReason']}); docsColdLane.sourceRoots are paths from the current folder"
    missing = found.get("missingRoots") or ()
    absent = f"; no such source root: {', '.join(missing)}" if missing else ""
    return f"documents: {found.get('filesMatched', 0)} files{absent}"


def _embed_with(vectors: VectorsOf, role: Role) -> Embed:
    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts, role=role)
        return vectors.of(texts, role)

    return embed
