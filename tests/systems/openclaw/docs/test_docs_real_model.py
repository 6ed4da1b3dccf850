"""The docs cold lane with real vectors, which find what words cannot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder, embedder_key
from lab.embedding.vectors import Vectors
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane, open_docs

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def embed() -> Callable[[Sequence[str]], np.ndarray]:
    """The default embedder behind its cache."""
    vectors = Vectors(SentenceTransformerEmbedder())

    def cached(texts: Sequence[str]) -> np.ndarray:
        vectors.prepare(texts)
        return vectors.of(texts)

    return cached


@pytest.mark.parametrize(
    ("query", "ref"),
    [
        ("How do people sign in on their phones?", "mobile/specs/login.md#login:001"),
        ("Which TCP socket is the proxy bound to?", "gateway/decisions/2026-03-02-port.md#port:001"),
        ("bring the service up again after a crash", "gateway/runbook.md#runbook:001"),
    ],
)
def test_search_finds_a_document_by_paraphrase(
    handbook: Path, tmp_path: Path, embed: Callable[[Sequence[str]], np.ndarray], query: str, ref: str
) -> None:
    settings = DocsSettings(enabled=True, source_roots=(str(handbook),))
    model = embedder_key(SentenceTransformerEmbedder())
    with open_docs(settings, tmp_path / "index", embed, model=model) as index:
        assert index.last_ingest["embedded"] == 7
        answer = DocsLane(settings, index).consult(query, "global", 1, trigger="insufficient_hot")
        assert [(hit.record_ref, hit.match) for hit in answer.hits] == [(f"doc:handbook:{ref}", ("vector",))]
    with DocsIndex(index.path, embed, model) as reopened:
        assert DocsLane(settings, reopened).consult(query, "global", 1, trigger="insufficient_hot") == answer
