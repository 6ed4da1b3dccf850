"""The memories of a store of any size: the recording's own first, resampled ones after them.

A resampled memory has a real one's label, scope, category and time, an id of its own, the real one's text with half of
its words (drawn) exchanged for words drawn from all texts, so that common words stay common, and the real one's vector
with a little noise, renormalised. It depends on seed and number alone: a smaller store is the beginning of a
larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lab.retrieval.row import Row
from lab.retrieval.tokens import TextSettings, words_under
from lab.systems.openclaw.memory import engine_id

if TYPE_CHECKING:
    import numpy as np

# Memories that one draw makes.
BATCH = 1_000
# Length of the noise; the vector's own is 1. The cosine to the real vector is then about .97.
NOISE = 0.25
EXCHANGED = 0.5


class Part(NamedTuple):
    """Some memories of a pool, in order: rows and float32 unit vectors ``[rows, dimension]``."""

    rows: list[Row]
    vectors: np.ndarray


class Pool:
    """The memories from which stores are made."""

    def __init__(self, rows: Sequence[Row], vectors: np.ndarray, seed: int) -> None:
        self.real = list(rows)
        self._vectors, self._seed = vectors, seed
        self._words = [row.index_text.split() for row in rows]
        self._all = [word for words in self._words for word in words] or ["-"]

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self._vectors.shape[1])

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """The memories from ``start`` to ``stop``, some at a time."""
        import numpy as np

        own = min(stop, len(self.real))
        if start < own:
            yield Part(self.real[start:own], np.ascontiguousarray(self._vectors[start:own]))
        first = max(start, own)
        while first < stop:
            batch, at = divmod(first - len(self.real), BATCH)
            rows, vectors = self._resampled(batch)
            until = min(BATCH, at + stop - first)
            yield Part(rows[at:until], np.ascontiguousarray(vectors[at:until]))
            first += until - at

    def _resampled(self, batch: int) -> Part:
        import numpy as np

        key = hashlib.sha256(f"{self._seed}\nresampled {batch}".encode()).digest()
        random = np.random.Generator(np.random.Philox(key=int.from_bytes(key[:16], "big")))
        bases = random.integers(len(self.real), size=BATCH)
        width = self._vectors.shape[1]
        noise = random.standard_normal((BATCH, width), dtype=np.float32) * np.float32(NOISE / width**0.5)
        vectors = self._vectors[bases] + noise
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = []
        for place, base in enumerate(bases.tolist()):
            row, words = self.real[base], list(self._words[base])
            drawn = random.integers(len(self._all), size=len(words)).tolist()
            exchanged = np.flatnonzero(random.random(len(words)) < EXCHANGED).tolist()
            for at in exchanged:
                words[at] = self._all[drawn[at]]
            if len(words) < 2 or not exchanged:
                # Where whitespace parts no words, as in Chinese, a text would come out as one that there is already.
                words.append(self._all[int(random.integers(len(self._all)))])
            key_of = f"resampled/{self._seed}/{batch * BATCH + place}"
            text = " ".join(words)
            # A rule that holds for ever is one, not one in a thousand.
            made = replace(row, id=engine_id(key_of), key=key_of, text=text, index_text=text, hard_rule=False)
            rows.append(made)
        return Part(rows, vectors)


class PoolWords:
    """Tokens of a pool's texts, for the exact store: a resampled text has those of its words, one after the other."""

    def __init__(self, pool: Pool, settings: TextSettings) -> None:
        self._words = words_under(settings)
        own = [row.index_text for row in pool.real]
        single = list(dict.fromkeys(word for text in own for word in text.split()))
        self._words.prepare([*own, *single])
        self._own = dict(zip(own, self._words.of(own), strict=True))
        self._single = dict(zip(single, self._words.of(single), strict=True))

    def of(self, rows: Sequence[Row]) -> list[list[str]]:
        """Tokens of each row's ``index_text``."""
        return [
            self._own[row.index_text]
            if row.index_text in self._own
            else [token for word in row.index_text.split() for token in self._single[word]]
            for row in rows
        ]
