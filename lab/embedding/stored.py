"""Vectors that were read from a store, used instead of computed ones."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lab.base.errors import UnusableInput

if TYPE_CHECKING:
    import numpy as np

# The tolerance for the length of a stored vector, which must be 1.
UNIT = 1e-3
REMEDY = "store normalised vectors of one embedder in every row, or replay without --vectors stored"


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
) -> tuple[StoredVectors, dict[str, str]]:
    """Check and collect vectors that were read, given by memory key with their location for messages.

    Return them, and the kind of fault of each vector that is missing, not finite, of another dimension than most, or
    not of length 1. Raises :class:`UnusableInput` if half of them or more are faulty: then it is the store that is.
    """
    import numpy as np

    rows = {key: _row(vector) for key, (vector, _) in vectors.items()}
    sizes = Counter(row.size for row in rows.values() if row.size)
    dimension = sizes.most_common(1)[0][0] if sizes else 0
    faults: dict[str, str] = {}
    for key, (vector, at) in vectors.items():
        if (fault := _fault(vector, rows[key], dimension)) is None:
            continue
        faults[key] = fault
        if 2 * len(faults) >= len(vectors):
            raise UnusableInput(f"{at}: {fault}; {REMEDY}")
    sound = [key for key in vectors if key not in faults]
    numbers = {key: number for number, key in enumerate(sound)}
    return StoredVectors(str(where), numbers, np.stack([rows[key] for key in sound])), faults


def _row(vector: Sequence[float] | np.ndarray | None) -> np.ndarray:
    """Return a vector as float32, empty if it is none."""
    import numpy as np

    try:
        row = np.asarray([] if vector is None else vector, np.float32)
    except (TypeError, ValueError):
        row = np.empty(0, np.float32)
    return row if row.ndim == 1 else np.empty(0, np.float32)


def _fault(vector: object, row: np.ndarray, dimension: int) -> str | None:
    """Return the kind of fault of a vector, if any."""
    import numpy as np

    if vector is None:
        return "it has no vector"
    if not row.size or not np.isfinite(row).all():
        return "field 'vector': expected a list of finite numbers"
    if len(row) != dimension:
        return "field 'vector': has another number of numbers than most rows"
    if not abs(float(np.linalg.norm(row.astype(np.float64))) - 1) <= UNIT:
        return "field 'vector': its length is not 1, so that distance and cosine would give different ranks"
    return None
