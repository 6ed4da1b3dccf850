"""Shares over windows of recalls, in the log's order.

Windows of must saturation follow each other: first, last, lowest and highest show where a share moves to. The worst
window is that of any consecutive recalls: a part that fails amid a long log shows there, and not in the share of all.
"""

from __future__ import annotations

from collections import deque
from typing import Any

SIZE = 100


class Windows:
    """Shares of must items, overall and by window one behind the other. Recalls without items do not count."""

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


class Worst:
    """The largest share of bad recalls among any ``size`` consecutive ones."""

    def __init__(self, size: int = SIZE) -> None:
        self._window = deque[bool](maxlen=size)
        self._bad = self._most = 0

    def add(self, bad: bool) -> None:
        """The next recall that counts."""
        window = self._window
        self._bad += bad - (window[0] if len(window) == window.maxlen else 0)
        window.append(bad)
        if len(window) == window.maxlen:
            self._most = max(self._most, self._bad)

    @property
    def share(self) -> float | None:
        """The share; None where no window was full."""
        return self._most / len(self._window) if len(self._window) == self._window.maxlen else None
