"""Must saturation: how much of what is recalled is ``must_remember``, over windows of recalls in the log's order."""

from __future__ import annotations

from typing import Any

SIZE = 100


class Windows:
    """Shares of must items, overall and by window. Recalls without items do not count."""

    def __init__(self, size: int = SIZE) -> None:
        self._size = size
        self._must = self._items = self._recalls = self._all_must = 0
        self._window = (0, 0)
        self._count = 0
        self._first: float | None = None
        self._last: float | None = None
        self._low: float | None = None
        self._high: float | None = None

    def add(self, must: int, items: int) -> None:
        """A recall with so many items, so many of them must."""
        if not items:
            return
        self._must += must
        self._items += items
        self._recalls += 1
        self._all_must += must == items
        self._window = (self._window[0] + must, self._window[1] + items)
        if self._recalls % self._size == 0:
            self._close()

    def _close(self) -> None:
        share = self._window[0] / self._window[1]
        self._window = (0, 0)
        self._count += 1
        self._first = share if self._first is None else self._first
        self._last = share
        self._low = share if self._low is None else min(self._low, share)
        self._high = share if self._high is None else max(self._high, share)

    def as_json(self) -> dict[str, Any]:
        """Shares; those of windows are None where no window was full."""
        return {
            "share": self._must / self._items if self._items else None,
            "all_must_rate": self._all_must / self._recalls if self._recalls else None,
            "window": self._size,
            "windows": self._count,
            "first_window": self._first,
            "last_window": self._last,
            "lowest_window": self._low,
            "highest_window": self._high,
        }
