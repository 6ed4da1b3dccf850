"""What a switched embedder costs: hits over the share of memories that keep the vectors of an older model (seed 002).

python -m tests.trials.switched_embedder DATA [--set NAME …]

Prompts, and the other memories, have vectors of all-MiniLM-L6-v2, the new model. Which memories are old is drawn by
hash, so a larger share contains a smaller one. There is one model here, so the older ones are stand-ins:

* ``rotated``: the same vectors, turned by a fixed random rotation: an equally good model with another space;
* ``hashed``: hashed words, in as many dimensions: a worse model with another space;
* ``truncated``: the first 128 of 384 dimensions: a worse model whose space nearly agrees.
"""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lab.base.draw import draw
from lab.embedding.embedder import DOCUMENT, QUERY, Role, VectorsOf
from tests.trials.lanes import SETS, Hit, Loaded, difference, mean_of, pooled, shown, table

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
KEPT = 128
Older = Callable[[Sequence[str], np.ndarray], np.ndarray]


def unit(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of unit length, float32 ``[n, dimension]``."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: np.ndarray = (vectors / np.where(norms == 0, 1, norms)).astype(np.float32)
    return scaled


def rotated(_: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Turn vectors by an orthogonal matrix, the same for all."""
    dimension = vectors.shape[1]
    turn, signs = np.linalg.qr(np.random.default_rng(18).standard_normal((dimension, dimension)))
    return unit(vectors @ (turn * np.sign(np.diag(signs))))


def hashed(texts: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Sum one signed dimension for each word of a text."""
    made = np.zeros_like(vectors)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            code = zlib.crc32(word.encode("utf-8", "surrogatepass"))
            made[row, code % vectors.shape[1]] += 1 - 2 * (code >> 31)
    return unit(made)


def truncated(_: Sequence[str], vectors: np.ndarray) -> np.ndarray:
    """Keep the first dimensions and set the others to 0."""
    made = vectors.copy()
    made[:, KEPT:] = 0
    return unit(made)


OLDER: dict[str, Older] = {"rotated": rotated, "hashed": hashed, "truncated": truncated}


class Switched:
    """Vectors of which a share of the documents has those of an older model."""

    def __init__(self, vectors: VectorsOf, older: Older, share: float) -> None:
        self._vectors, self._older, self._share = vectors, older, share
        self.dimension, self.prepare = vectors.dimension, vectors.prepare

    def of(self, texts: Sequence[str], role: Role = DOCUMENT) -> np.ndarray:
        """Return the vectors of texts, those of old documents by the older model."""
        vectors = self._vectors.of(texts, role)
        old = [at for at, text in enumerate(texts) if role != QUERY and draw(18, text) < self._share]
        if not old:
            return vectors
        mixed = vectors.copy()
        mixed[old] = self._older([texts[at] for at in old], vectors[old])
        return mixed


def main() -> None:
    """Print hits by arm and share for every stand-in, over all sets, then for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", action="append", choices=list(SETS))
    given = parser.parse_args()
    loaded = {
        name: Loaded.of(given.data / SETS[name][0], SETS[name][0], SETS[name][1]) for name in given.set or list(SETS)
    }
    for kind, older in OLDER.items():
        runs: dict[float, dict[str, list[Hit]]] = {
            share: {name: one.hits(Switched(one.sources.vectors, older, share)) for name, one in loaded.items()}
            for share in SHARES
        }
        every = {share: pooled(by_set) for share, by_set in runs.items()}
        print(f"\n{kind}, all sets, {len(every[0.0]) // 3} probes\n")
        rows = [
            [
                f"{share:.2f}",
                *(shown(mean_of(every[share], arm)) for arm in ("vector", "hybrid", "bm25")),
                *(shown(difference(every[0.0], every[share], arm), signed=True) for arm in ("vector", "hybrid")),
                shown(difference(every[share], every[share], "bm25", "hybrid"), signed=True),
            ]
            for share in SHARES
        ]
        print(table(("share", "vector", "hybrid", "bm25", "vector lost", "hybrid lost", "hybrid − bm25"), rows))
        print()
        parts = [
            [name, arm, *(f"{mean_of(runs[share][name], arm).mean:.3f}" for share in SHARES)]
            for name in loaded
            for arm in ("vector", "hybrid", "bm25")
        ]
        print(table(("set", "arm", *(f"{share:.2f}" for share in SHARES)), parts))


if __name__ == "__main__":
    main()
