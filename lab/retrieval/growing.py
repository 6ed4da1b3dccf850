"""Arrays that grow at their end, each element copied a constant number of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class Growing:
    """A numpy array ``[length]`` or ``[length, width]`` that rows are appended to."""

    def __init__(self, kind: npt.DTypeLike, width: int | None = None, first: int = 64) -> None:
        import numpy as np

        self.length = 0
        self._held = np.zeros((first,) if width is None else (first, width), kind)

    def extend(self, values: Any) -> None:
        """Append values, as many as there are."""
        import numpy as np

        if not len(values):
            return
        end = self.length + len(values)
        if end > len(self._held):
            grown = np.zeros((max(end, 2 * len(self._held)), *self._held.shape[1:]), self._held.dtype)
            grown[: self.length] = self._held[: self.length]
            self._held = grown
        self._held[self.length : end] = values
        self.length = end

    @property
    def array(self) -> np.ndarray:
        """What was appended so far: a view, of which later appending changes nothing."""
        return self._held[: self.length]
