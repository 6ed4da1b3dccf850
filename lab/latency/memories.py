"""The memories of a store of any size: the recording's own first, resampled ones after them.

A resampled memory has a real one's label, scope, category and time, an id of its own, the real one's text with half of
its words (drawn) exchanged for words drawn from all texts, so that common words stay common, and the real one's vector
with a little noise, renormalised. It depends on seed and number alone: a smaller store is the beginning of a
larger one.
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

# Memories that one draw makes.
BATCH = 1_000
# Length of the noise; the vector's own is 1. The cosine to the real vector is then about .97.
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
        for place, base in enumerate(bases.tolist()):
            words = list(self._words[base])
            drawn = random.integers(len(self._all), size=len(words)).tolist()
            exchanged = np.flatnonzero(random.random(len(words)) < EXCHANGED).tolist()
            for at in exchanged:
                words[at] = self._all[drawn[at]]
            if len(words) < 2 or not exchanged:
                # Where whitespace parts no words, as in Chinese, a text would come out as one that there is already.
                words.append(self._all[int(random.integers(len(self._all)))])
            if is_hard_rule(" ".join(words)):
                # A rule that holds for ever is one, not one in a thousand.
                words = words[1:] + words[:1]
            name, text = f"resampled/{self._seed}/{batch * BATCH + place}", " ".join(words)
            memories.append(replace(self.real[base], key=name, text=text, index_text=text, hard_rule=False))
        return Part(memories, vectors)


class PoolVectors:
    """The vectors of a pool's memories, by what is embedded of them; another text's come from elsewhere.

    A system with a table of its own asks for them. They are made where first asked for.
    """

    def __init__(self, pool: Pool, size: int, others: VectorsOf, limits: Clamp) -> None:
        self._pool, self._size, self._others, self._limits = pool, size, others, limits

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
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
        """Make ready what is no memory's; return how many texts were embedded for it."""
        others = [text for text in texts if text not in self._known]
        return self._others.prepare(others, announce, role) if others else 0

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """float32 ``[len(texts), dimension]``."""
        import numpy as np

        if not texts:
            return np.empty((0, self.dimension), np.float32)
        known = self._known if role == DOCUMENT else {}
        return np.stack([known[text] if text in known else self._others.of([text], role)[0] for text in texts])


class PoolWords:
    """Tokens of a pool's texts, for the exact store: a resampled text has those of its words, one after the other."""

    def __init__(self, pool: Pool, settings: TextSettings) -> None:
        self._words = words_under(settings)
        own = [memory.index_text for memory in pool.real]
        single = list(dict.fromkeys(word for text in own for word in text.split()))
        self._words.prepare([*own, *single])
        self._own = dict(zip(own, self._words.of(own), strict=True))
        self._single = dict(zip(single, self._words.of(single), strict=True))

    def prepare(self, texts: Sequence[str]) -> int:
        """Make ready what holds another word; return how many texts were new."""
        return self._words.prepare([text for text in texts if self._parts(text) is None])

    def of(self, texts: Sequence[str]) -> list[list[str]]:
        """Tokens of each text."""
        found = (self._parts(text) for text in texts)
        return [self._words.of([text])[0] if one is None else one for text, one in zip(texts, found, strict=True)]

    def _parts(self, text: str) -> list[str] | None:
        """Tokens of a text of the pool; None where it holds a word that no text of the pool does."""
        if text in self._own:
            return self._own[text]
        words = text.split()
        if any(word not in self._single for word in words):
            return None
        return [token for word in words for token in self._single[word]]
