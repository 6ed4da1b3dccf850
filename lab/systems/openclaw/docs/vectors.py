"""Vectors of chunks: validation of an embedder's output, and nearest neighbours by cosine (E-48)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

Embed = Callable[[Sequence[str]], "np.ndarray"]


class Matrix(NamedTuple):
    """Unit vectors, float64 ``[n, d]``, with the chunk id and the lower-case repo of each row."""

    ids: tuple[int, ...]
    repos: tuple[str, ...]
    unit: np.ndarray


def embedded(embed: Embed, texts: Sequence[str]) -> np.ndarray:
    """Embed texts: little-endian float32 ``[len(texts), d]``. ValueError for other shapes and non-finite values."""
    import numpy as np

    vectors = np.ascontiguousarray(embed(texts), "<f4")
    if vectors.ndim != 2 or len(vectors) != len(texts) or not vectors.shape[1] or not np.isfinite(vectors).all():
        raise ValueError(f"expected finite vectors [{len(texts)}, d], found shape {vectors.shape}")
    return vectors


def matrix_of(rows: Sequence[tuple[int, str, bytes]], dimension: int) -> Matrix:
    """Build the matrix from rows of chunk id, repo and stored bytes, given in the order that breaks ties."""
    import numpy as np

    stacked = np.frombuffer(b"".join(vector for *_, vector in rows), "<f4").reshape(len(rows), dimension)
    return Matrix(tuple(row[0] for row in rows), tuple(row[1] for row in rows), _unit(stacked))


def nearest(matrix: Matrix, query: np.ndarray, repos: Collection[str], depth: int) -> list[tuple[int, float]]:
    """Return the first ``depth`` chunks of ``repos`` (empty: all) by cosine rounded to 1e-6; ties in row order."""
    import numpy as np

    cosines = np.round(matrix.unit @ _unit(query), 6)
    hits = (row for row in np.argsort(-cosines, kind="stable").tolist() if not repos or matrix.repos[row] in repos)
    return [(matrix.ids[row], float(cosines[row])) for row in islice(hits, depth)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1, keepdims=True)
    unit: np.ndarray = wide / np.where(norms == 0, 1, norms)
    return unit
