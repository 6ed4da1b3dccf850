"""Vectors that a store already holds, in place of computed ones."""

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

# What the length of a stored vector may be off 1.
UNIT = 1e-3


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """Vectors by key of memory: row ``rows[key]`` of ``matrix``, float32 ``[rows, dimension]``.

    Rows without an embedding are not included. Two memories with one text may have different vectors. ``where``
    names the store in messages.
    """

    where: str
    rows: Mapping[str, int]
    matrix: np.ndarray

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return int(self.matrix.shape[1])

    @cached_property
    def sha256(self) -> str:
        """Hash of keys and vectors: what a run with them depends on."""
        found = hashlib.sha256("\n".join(self.rows).encode("utf-8", "surrogatepass"))
        found.update(self.matrix.astype("<f4").tobytes())
        return found.hexdigest()

    def __contains__(self, key: str) -> bool:
        return key in self.rows

    def of(self, keys: Sequence[str], others: Iterable[np.ndarray] = ()) -> np.ndarray:
        """float32 ``[len(keys), dimension]``; ``others`` are of the keys that the store lacks, in order."""
        import numpy as np

        rest = iter(others)
        found = [self.matrix[self.rows[key]] if key in self.rows else next(rest) for key in keys]
        return np.stack(found).astype(np.float32)


def stored_vectors(where: Path, found: Mapping[str, tuple[Sequence[float] | np.ndarray | None, str]]) -> StoredVectors:
    """The vectors of memories as they were read: by key, each with the place that it was read at.

    Raises :class:`UnusableInput` naming the first row whose vector is missing, not finite, of another dimension or
    not of length 1.
    """
    import numpy as np

    rows: list[np.ndarray] = []
    for vector, at in found.values():
        if vector is None:
            raise UnusableInput(f"{at}: holds no vector; --vectors stored needs one of every row, so leave it out")
        try:
            row = np.asarray(vector, np.float32)
        except (TypeError, ValueError):
            row = np.empty(0, np.float32)
        if row.ndim != 1 or not row.size or not np.isfinite(row).all():
            raise UnusableInput(f"{at}: field 'vector': expected a list of finite numbers")
        if rows and len(row) != len(rows[0]):
            raise UnusableInput(f"{at}: field 'vector': has {len(row)} numbers, and rows before it {len(rows[0])}")
        norm = float(np.linalg.norm(row.astype(np.float64)))
        if not abs(norm - 1) <= UNIT:
            raise UnusableInput(
                f"{at}: field 'vector': has length {norm:.4g}, expected 1, for which ranks by distance and by cosine "
                "agree; store them normalised, or replay without --vectors stored"
            )
        rows.append(row)
    return StoredVectors(str(where), {key: number for number, key in enumerate(found)}, np.stack(rows))
