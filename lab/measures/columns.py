"""Numeric columns that measures read and return. A missing value is NaN, and null on disk."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Strings, so that importing this module does not load numpy.
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Number = TypeVar("Number", bound="np.generic")


def share(part: Floats | Ints, total: Floats | Ints) -> Floats:
    """Return ``part / total``; NaN where ``total`` is 0."""
    import numpy as np

    return np.where(total > 0, part / np.where(total > 0, total, 1), np.nan)


def where_any(count: Floats | Ints, value: Floats | Flags) -> Floats:
    """Return the value where ``count`` is positive, else NaN."""
    import numpy as np

    return np.where(count > 0, value, np.nan)


def padded(flat: NDArray[Number], sizes: Ints, fill: float = 0) -> NDArray[Number]:
    """Return the rows concatenated in ``flat``, of lengths ``sizes``, as a matrix padded with ``fill``."""
    import numpy as np

    grid = np.full((len(sizes), int(sizes.max(initial=0))), fill, flat.dtype)
    grid[np.arange(grid.shape[1]) < sizes[:, None]] = flat
    return grid


def ragged(rows: Sequence[Sequence[float]], fill: float = 0) -> Floats:
    """Return rows of numbers as a matrix padded with ``fill``."""
    import numpy as np

    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return padded(np.fromiter(chain.from_iterable(rows), float, int(sizes.sum())), sizes, fill)
