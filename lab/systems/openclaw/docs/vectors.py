"""Vectors of chunks: what an embedder may answer with, and the nearest by cosine (E-48)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np

Embed = Callable[[Sequence[str]], "np.ndarray"]


class Matrix(NamedTuple):
    """Unit rows, float64 ``[n, d]``, each with the id of its chunk and the repo (in lower case) of its document."""

    ids: tuple[int, ...]
    repos: tuple[str, ...]
    unit: np.ndarray


def embedded(embed: Embed, texts: Sequence[str]) -> np.ndarray:
    """Little-endian float32 ``[len(texts), d]``; ValueError for an answer of another shape, or one not finite."""
    import numpy as np

    found = np.ascontiguousarray(embed(texts), "<f4")
    if found.ndim != 2 or len(found) != len(texts) or not found.shape[1] or not np.isfinite(found).all():
        raise ValueError(f"expected finite vectors [{len(texts)}, d], found shape {found.shape}")
    return found


def matrix_of(rows: Sequence[tuple[int, str, bytes]], dimension: int) -> Matrix:
    """Rows of id, repo and stored bytes, in the order in which ties are to stand."""
    import numpy as np

    stacked = np.frombuffer(b"".join(vector for *_, vector in rows), "<f4").reshape(len(rows), dimension)
    return Matrix(tuple(row[0] for row in rows), tuple(row[1] for row in rows), _unit(stacked))


def nearest(matrix: Matrix, asked: np.ndarray, repos: Collection[str], depth: int) -> list[tuple[int, float]]:
    """The first ``depth`` chunks of ``repos`` (empty: of all) by cosine, rounded to 1e-6; ties in order of rows."""
    import numpy as np

    cosines = np.round(matrix.unit @ _unit(asked), 6)
    hits = (row for row in np.argsort(-cosines, kind="stable").tolist() if not repos or matrix.repos[row] in repos)
    return [(matrix.ids[row], float(cosines[row])) for row in islice(hits, depth)]


def _unit(vectors: np.ndarray) -> np.ndarray:
    import numpy as np

    wide = vectors.astype(np.float64)
    norms = np.linalg.norm(wide, axis=-1, keepdims=True)
    unit: np.ndarray = wide / np.where(norms == 0, 1, norms)
    return unit
