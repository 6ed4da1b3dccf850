"""Numpy arrays that grow at the end with amortised constant cost per element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Growing:
    """A numpy array ``[length]`` or ``[length, width]`` to which rows are appended."""

    def __init__(self, kind: npt.DTypeLike, width: int | None = None, first: int = 64) -> None:
        import numpy as np

        self.length = 0
        self._buffer = np.zeros((first,) if width is None else (first, width), kind)

    def extend(self, values: Any) -> None:
        """Append values."""
        import numpy as np

        if not len(values):
            return
        end = self.length + len(values)
        if end > len(self._buffer):
            grown = np.zeros((max(end, 2 * len(self._buffer)), *self._buffer.shape[1:]), self._buffer.dtype)
            grown[: self.length] = self._buffer[: self.length]
            self._buffer = grown
        self._buffer[self.length : end] = values
        self.length = end

    @property
    def array(self) -> np.ndarray:
        """A view of what was appended so far. Later appends do not change it."""
        return self._buffer[: self.length]
