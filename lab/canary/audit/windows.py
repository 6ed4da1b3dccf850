"""Shares over windows of consecutive recalls: that of must items, and the worst window of bad recalls."""

from __future__ import annotations

from collections import deque
from typing import Any

SIZE = 100


class Windows:
    """Shares of must items, overall and by consecutive windows. Recalls without items are ignored."""

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
        """Add a recall with ``items`` items, of which ``must`` are must items."""
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

    def sums(self) -> tuple[int, int]:
        """Return the number of must items, and of all items."""
        return self._must, self._items

    def as_json(self) -> dict[str, Any]:
        """Return the shares; those of windows are None until the first window is full."""
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


class Worst:
    """The largest share of bad recalls among any ``size`` consecutive ones."""

    def __init__(self, size: int = SIZE) -> None:
        self._window = deque[bool](maxlen=size)
        self._bad = self._most = 0

    def add(self, bad: bool) -> None:
        """Add the next recall."""
        window = self._window
        self._bad += bad - (window[0] if len(window) == window.maxlen else 0)
        window.append(bad)
        if len(window) == window.maxlen:
            self._most = max(self._most, self._bad)

    @property
    def share(self) -> float | None:
        """The share, or None until the first window is full."""
        return self._most / len(self._window) if len(self._window) == self._window.maxlen else None
