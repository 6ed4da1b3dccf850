"""The real model, loaded once for this folder."""

from __future__ import annotations

import pytest

from lab.embedding.embedder import SentenceTransformerEmbedder


@pytest.fixture(scope="session")
def model() -> SentenceTransformerEmbedder:
    """The default embedder."""
    return SentenceTransformerEmbedder()
