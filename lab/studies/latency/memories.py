"""The memories of a store of any size: first the recordings' memories, then resampled ones.

A resampled memory has its own id, and the label, scope, category and time of a recorded one. Half of the words of its
text, chosen at random, are replaced by words drawn from all texts, so that common words stay common; its vector gets
some noise and is renormalised. It depends only on the seed and its number, so a smaller store is a prefix of a larger
one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from lab.embedding.embedder import DOCUMENT, Role
from lab.recordings.model import Memory
from lab.retrieval.clamp import Clamp
from lab.retrieval.retrievers import VectorsOf, embedded_text
from lab.retrieval.tokens import TextSettings, words_under
from lab.systems.openclaw.memory import is_hard_rule

if TYPE_CHECKING:
    import numpy as np

# Memories per batch.
BATCH = 1_000
# Length of the noise relative to the vector; the cosine to the recorded vector is then about .97.
NOISE = 0.25
EXCHANGED = 0.5


class Part(NamedTuple):
    """Some memories of a pool, in order, and their float32 unit vectors ``[memories, dimension]``."""

    memories: list[Memory]
    vectors: np.ndarray


class Pool:
    """The memories from which stores are made."""

    def __init__(self, memories: Sequence[Memory], vectors: np.ndarray, seed: int) -> None:
        self.real = list(memories)
        self._vectors, self._seed = vectors, seed
        self._words = [memory.index_text.split() for memory in memories]
        self._all = [word for words in self._words for word in words] or ["-"]

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return int(self._vectors.shape[1])

    def parts(self, start: int, stop: int) -> Iterator[Part]:
        """Yield the memories from ``start`` to ``stop``, in parts."""
        import numpy as np

        recorded = min(stop, len(self.real))
        if start < recorded:
            yield Part(self.real[start:recorded], np.ascontiguousarray(self._vectors[start:recorded]))
        first = max(start, recorded)
        while first < stop:
            batch, at = divmod(first - len(self.real), BATCH)
            memories, vectors = self._resampled(batch)
            until = min(BATCH, at + stop - first)
            yield Part(memories[at:until], np.ascontiguousarray(vectors[at:until]))
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
        memories = []
        for index, base in enumerate(bases.tolist()):
            words = list(self._words[base])
            drawn = random.integers(len(self._all), size=len(words)).tolist()
            exchanged = np.flatnonzero(random.random(len(words)) < EXCHANGED).tolist()
            for at in exchanged:
                words[at] = self._all[drawn[at]]
            if len(words) < 2 or not exchanged:
                # Without words separated by blanks, as in Chinese, the text would equal an existing one.
                words.append(self._all[int(random.integers(len(self._all)))])
            if is_hard_rule(" ".join(words)):
                # Hard rules must not multiply with the size of the store.
                words = words[1:] + words[:1]
            name, text = f"resampled/{self._seed}/{batch * BATCH + index}", " ".join(words)
            memories.append(replace(self.real[base], key=name, text=text, index_text=text, hard_rule=False))
        return Part(memories, vectors)


class PoolVectors:
    """The vectors of a pool's memories by their embedded text; vectors of other texts come from ``others``.

    A system with its own table needs them. They are computed at first use.
    """

    def __init__(self, pool: Pool, size: int, others: VectorsOf, limits: Clamp) -> None:
        self._pool, self._size, self._others, self._limits = pool, size, others, limits

    @property
    def dimension(self) -> int:
        """Return the dimension of the vectors."""
        return self._pool.dimension

    @cached_property
    def _known(self) -> dict[str, np.ndarray]:
        parts = self._pool.parts(0, self._size)
        return {
            embedded_text(memory.index_text, self._limits): vector
            for memories, vectors in parts
            for memory, vector in zip(memories, vectors, strict=True)
        }

    def prepare(
        self, texts: Sequence[str], announce: Callable[[str], None] | None = None, role: Role = DOCUMENT
    ) -> int:
        """Embed texts that are not of a memory; return how many were embedded."""
        others = [text for text in texts if text not in self._known]
        return self._others.prepare(others, announce, role) if others else 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return vectors, float32 ``[len(texts), dimension]``."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        known = self._known if role == DOCUMENT else {}
        return np.stack([known[text] if text in known else self._others.of([text], role)[0] for text in texts])


class PoolWords:
    """Tokens of a pool's texts for the exact store: a resampled text has the tokens of its words in order."""

    def __init__(self, pool: Pool, settings: TextSettings) -> None:
        self._words = words_under(settings)
        recorded = [memory.index_text for memory in pool.real]
        single = list(dict.fromkeys(word for text in recorded for word in text.split()))
        self._words.prepare([*recorded, *single])
        self._recorded = dict(zip(recorded, self._words.of(recorded), strict=True))
        self._single = dict(zip(single, self._words.of(single), strict=True))

    def prepare(self, texts: Sequence[str]) -> int:
        """Tokenise texts with unknown words; return how many were new."""
        return self._words.prepare([text for text in texts if self._parts(text) is None])

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the tokens of each text."""
        known = (self._parts(text) for text in texts)
        return [
            self._words.of([text])[0] if tokens is None else tokens for text, tokens in zip(texts, known, strict=True)
        ]

    def _parts(self, text: str) -> list[str] | None:
        """Return the tokens of a text of the pool; None if it has a word that is not in the pool."""
        if text in self._recorded:
            return self._recorded[text]
        words = text.split()
        if any(word not in self._single for word in words):
            return None
        return [token for word in words for token in self._single[word]]
