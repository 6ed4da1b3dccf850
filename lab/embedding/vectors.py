"""Vectors for texts, from the cache where it has them and from the embedder where it has not."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lab.embedding.cache import ChunkCache, cache_folder, text_key
from lab.embedding.chunks import matrix
from lab.embedding.embedder import Embedder, embedder_key

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# So many texts are gathered one by one faster than chunk by chunk.
FEW = 32


class Recomputed(NamedTuple):
    """How many texts were embedded again, how many the cache lacks, and what differed, by file."""

    compared: int
    lacking: int
    differing: dict[Path, int]


class Vectors:
    """Cached vectors of one embedder. The cache is opened when it is first asked."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self._matrices: dict[int, np.ndarray] = {}

    @cached_property
    def _cache(self) -> ChunkCache:
        import pyarrow as pa

        return ChunkCache(
            cache_folder() / "vectors" / embedder_key(self.embedder),
            pa.list_(pa.float32(), self.embedder.dimension),
            self.embedder.identity(),
        )

    def prepare(self, texts: Sequence[str], announce: Callable[[str], None] | None = None) -> int:
        """Embed the texts that the cache lacks; return how many those were.

        ``announce`` hears of progress, in sentences. A vector is a function of its text alone, so which texts share a
        chunk is free to choose: those of like length, the longest first. Their batches are full, and the time that
        remains is rather less than announced.
        """
        missing = sorted(self._cache.missing(texts), key=len, reverse=True)
        if missing:
            self._cache.fill(missing, self._embed, _progress(missing, announce or (lambda _: None)))
        return len(missing)

    def of(self, texts: Sequence[str]) -> np.ndarray:
        """float32 ``[len(texts), dimension]``; all of them must have been prepared."""
        import numpy as np

        out = np.empty((len(texts), self.embedder.dimension), np.float32)
        if len(texts) <= FEW:
            for at, (number, row) in enumerate(map(self._cache.place, texts)):
                out[at] = self._matrix(number)[row]
            return out
        for number, positions, rows in self._cache.places(texts):
            out[positions] = self._matrix(number)[rows]
        return out

    def recompute(self, texts: Sequence[str], sample: int | None = None) -> Recomputed:
        """Embed texts that the cache has once more, and compare bit for bit; nothing is written.

        ``sample`` texts at most, those of the lowest keys: a draw by hash, the same for every asker.
        """
        lacking = set(self._cache.missing(texts))
        chosen = sorted({text for text in texts if text not in lacking}, key=text_key)[:sample]
        wrong: dict[Path, int] = {}
        if chosen:
            equal = (self.of(chosen).view("uint32") == self.embedder.encode(chosen).view("uint32")).all(axis=1)
            for text, same in zip(chosen, equal.tolist(), strict=True):
                if not same:
                    path = self._cache.path(self._cache.place(text)[0])
                    wrong[path] = wrong.get(path, 0) + 1
        return Recomputed(len(chosen), len(lacking), wrong)

    def _embed(self, part: list[str]) -> pa.Array:
        import pyarrow as pa

        found = self.embedder.encode(part)
        flat = pa.Array.from_buffers(pa.float32(), found.size, [None, pa.py_buffer(found.tobytes())])
        return pa.FixedSizeListArray.from_arrays(flat, self.embedder.dimension)

    def _matrix(self, number: int) -> np.ndarray:
        """A chunk as a matrix over its mapped file."""
        found = self._matrices.get(number)
        if found is None:
            found = self._matrices[number] = matrix(self._cache.chunk(number))
        return found


def _progress(texts: Sequence[str], announce: Callable[[str], None]) -> Callable[[int], None]:
    """Says how many texts are embedded, at what rate, and what time remains, in proportion to their characters."""
    total, all_characters = len(texts), sum(len(text) + 1 for text in texts)
    done = characters = 0
    started = time.perf_counter()
    announce(f"embedding {total} texts")

    def progress(count: int) -> None:
        nonlocal done, characters
        characters += sum(len(text) + 1 for text in texts[done : done + count])
        done += count
        took = time.perf_counter() - started
        left = took * (all_characters / characters - 1)
        rate = f"{done / took:.0f} a second" if took else "at once"
        announce(f"embedded {done} of {total} texts ({rate}{f', {_span(left)} left' if done < total else ''})")

    return progress


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
