"""Vectors for texts, from the cache where it has them and from the embedder where it has not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lab.embedding.cache import ChunkCache, cache_folder
from lab.embedding.embedder import Embedder, embedder_key

if TYPE_CHECKING:
    import numpy as np


class Vectors:
    """Cached vectors of one embedder."""

    def __init__(self, embedder: Embedder) -> None:
        import pyarrow as pa

        self.embedder = embedder
        self._matrices: dict[int, np.ndarray] = {}
        self._cache = ChunkCache(
            cache_folder() / "vectors" / embedder_key(embedder), pa.list_(pa.float32(), embedder.dimension)
        )

    def prepare(self, texts: Sequence[str], announce: Callable[[int, int], None] | None = None) -> int:
        """Embed the texts that the cache lacks; return how many those were.

        ``announce(done, total)`` hears of progress.
        """
        import pyarrow as pa

        missing = self._cache.missing(texts)
        done = 0

        def compute(part: list[str]) -> pa.Array:
            return pa.FixedSizeListArray.from_arrays(
                pa.array(self.embedder.encode(part).ravel()), self.embedder.dimension
            )

        def progress(count: int) -> None:
            nonlocal done
            done += count
            if announce:
                announce(done, len(missing))

        if missing and announce:
            announce(0, len(missing))
        self._cache.fill(missing, compute, progress)
        return len(missing)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[len(texts), dimension]``; all of them must have been prepared."""
        import numpy as np

        out = np.empty((len(texts), self.embedder.dimension), np.float32)
        rows_by_chunk: dict[int, tuple[list[int], list[int]]] = {}
        for at, text in enumerate(texts):
            chunk, row = self._cache.place(text)
            mine = rows_by_chunk.setdefault(chunk, ([], []))
            mine[0].append(at)
            mine[1].append(row)
        for chunk, (places, rows) in rows_by_chunk.items():
            out[places] = self._matrix(chunk)[rows]
        return out

    def _matrix(self, chunk: int) -> np.ndarray:
        """A chunk as a matrix over its mapped file."""
        if chunk not in self._matrices:
            self._matrices[chunk] = (
                self._cache.chunk(chunk).combine_chunks().flatten().to_numpy().reshape(-1, self.embedder.dimension)
            )
        return self._matrices[chunk]
