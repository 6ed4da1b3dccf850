"""Open the documents of a replay: update the index once and give every worker a copy."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.errors import CannotMeasure, LabError
from lab.base.files import digest, private_folder
from lab.embedding.cache import cache_folder
from lab.embedding.embedder import DOCUMENT, QUERY, Embedder, Role, role_key
from lab.retrieval.retrievers import VectorsOf
from lab.systems.kit import Workshop
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane, open_docs
from lab.systems.openclaw.docs.vectors import Embed

if TYPE_CHECKING:
    import numpy as np


def open_lane(settings: DocsSettings, workshop: Workshop) -> DocsLane:
    """Update the index in the cache and announce how many documents it contains."""
    roots = digest([settings.source_roots, settings.source_globs, settings.max_chunk_chars])[:16]
    model = role_key(workshop.embedder, DOCUMENT)
    path = cache_folder() / "docs" / f"{model}-{roots}.sqlite"
    with suppress(OSError):  # opening the index reports the error
        private_folder(path.parent)
    embed, failures = _embed_with(workshop.vectors, DOCUMENT), list[LabError]()

    def embed_noting_failures(texts: Sequence[str]) -> np.ndarray:
        try:
            return embed(texts)
        except LabError as error:
            failures.append(error)
            raise

    try:
        index = open_docs(settings, path, embed_noting_failures, model=model, ask=_embed_with(workshop.vectors, QUERY))
    except sqlite3.Error as error:
        raise CannotMeasure(f"{path}: the document index cannot be updated: {error}") from None
    if failures:
        # The engine would continue without vectors, but the replay would then measure another engine.
        raise failures[0]
    lane = DocsLane(settings, index)
    workshop.announce(_summary(lane))
    return lane


def packed_lane(settings: DocsSettings, packed: bytes | None, embedder: Embedder, vectors: VectorsOf) -> DocsLane:
    """Open a lane from a copy of an index; only queries are embedded."""
    if packed is None:
        return DocsLane(settings, None)
    embed, ask = _embed_with(vectors, DOCUMENT), _embed_with(vectors, QUERY)
    return DocsLane(settings, DocsIndex(Path(":memory:"), embed, role_key(embedder, DOCUMENT), packed=packed, ask=ask))


def _summary(lane: DocsLane) -> str:
    """Return a sentence on how many documents a lane may cite, or why there are none."""
    ingest = lane.index.last_ingest if lane.index else {}
    if ingest.get("skipReason"):
        return f"documents: none ({ingest['skipReason']}); docsColdLane.sourceRoots are relative to the current folder"
    missing = ingest.get("missingRoots") or ()
    absent = f"; missing source roots: {', '.join(missing)}" if missing else ""
    return f"documents: {ingest.get('filesMatched', 0)} files{absent}"


def _embed_with(vectors: VectorsOf, role: Role) -> Embed:
    def embed(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts, role=role)
        return vectors.of(texts, role)

    return embed
