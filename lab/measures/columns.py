"""Columns of numbers, as the measures read and give them. A value that there is none of is NaN, and null on disk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lab.columns import Floats, Ints


def share(part: Floats | Ints, whole: Floats | Ints) -> Floats:
    """``part / whole``; NaN where the whole is nothing."""
    import numpy as np

    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)


def padded(flat: NDArray[Any], sizes: Ints, fill: float = 0) -> NDArray[Any]:
    """Rows of ``sizes`` that lie end to end in ``flat``, as a matrix as wide as the longest."""
    import numpy as np

    grid = np.full((len(sizes), int(sizes.max(initial=0))), fill, flat.dtype)
    grid[np.arange(grid.shape[1]) < sizes[:, None]] = flat
    return grid


def ragged(rows: Sequence[Sequence[float]], fill: float = 0) -> Floats:
    """Rows of numbers as a matrix, filled up at their ends."""
    import numpy as np

    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return padded(np.fromiter(chain.from_iterable(rows), float, int(sizes.sum())), sizes, fill)
