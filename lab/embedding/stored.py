"""Vectors that were read from a store, used instead of computed ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import UnusableInput

if TYPE_CHECKING:
    import numpy as np

# The tolerance for the length of a stored vector, which must be 1.
UNIT = 1e-3


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors by memory key: row ``rows[key]`` of ``matrix``, float32 ``[rows, dimension]``.

    Rows without an embedding are not included. Two memories with one text may have different vectors. ``where``
    names the store in messages.
    """

    where: str
    rows: Mapping[str, int]
    matrix: np.ndarray

    @property
    def dimension(self) -> int:
        """The number of dimensions."""
        return int(self.matrix.shape[1])

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of keys and vectors, which identifies them in a run."""
        hasher = hashlib.sha256("\n".join(self.rows).encode("utf-8", "surrogatepass"))
        hasher.update(self.matrix.astype("<f4").tobytes())
        return hasher.hexdigest()

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def of(self, keys: Sequence[str], others: Iterable[np.ndarray] = ()) -> np.ndarray:
        """Return float32 ``[len(keys), dimension]``; ``others`` has the vectors of missing keys, in order."""
        import numpy as np

        rest = iter(others)
        vectors = [self.matrix[self.rows[key]] if key in self.rows else next(rest) for key in keys]
        return np.stack(vectors).astype(np.float32)


def stored_vectors(
    where: Path, vectors: Mapping[str, tuple[Sequence[float] | np.ndarray | None, str]]
) -> StoredVectors:
    """Check and collect vectors that were read, given by memory key with their location for messages.

    Raises :class:`UnusableInput` for the first vector that is missing, not finite, of another dimension, or not of
    length 1.
    """
    import numpy as np

    rows: list[np.ndarray] = []
    for vector, at in vectors.values():
        if vector is None:
            raise UnusableInput(f"{at}: has no vector, and --vectors stored needs one in every row; drop that option")
        try:
            row = np.asarray(vector, np.float32)
        except (TypeError, ValueError):
            row = np.empty(0, np.float32)
        if row.ndim != 1 or not row.size or not np.isfinite(row).all():
            raise UnusableInput(f"{at}: field 'vector': expected a list of finite numbers")
        if rows and len(row) != len(rows[0]):
            raise UnusableInput(f"{at}: field 'vector': has {len(row)} numbers, but earlier rows have {len(rows[0])}")
        norm = float(np.linalg.norm(row.astype(np.float64)))
        if not abs(norm - 1) <= UNIT:
            raise UnusableInput(
                f"{at}: field 'vector': has length {norm:.4g}, expected 1, so that distance and cosine give the same "
                "ranks; store normalised vectors, or replay without --vectors stored"
            )
        rows.append(row)
    return StoredVectors(str(where), {key: number for number, key in enumerate(vectors)}, np.stack(rows))
