"""Deduplicate hook calls for one prompt (E-23): the second call within seconds is ignored.

A host may call both of its hooks for a turn, and the plugin registers one handler for both.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from lab.base.utf16 import js_utf8

WINDOW_MS, CAPACITY = 4000, 1024


class HookDedupe:
    """The calls of the last seconds, by session, number of messages and prompt."""

    def __init__(self) -> None:
        self._fired: dict[str, float] = {}

    def is_repeat(self, session: str | None, messages: int, prompt: str, now_ms: float) -> bool:
        """Whether this call repeats one of the last four seconds; if not, record it.

        ``prompt`` is compared untrimmed: a trailing space makes a difference. A repeat does not extend the window.
        """
        self._fired = {key: at for key, at in self._fired.items() if now_ms - at <= WINDOW_MS}
        digest = hashlib.sha1(js_utf8(prompt), usedforsecurity=False).hexdigest()
        key = f"{session or 'no-session'}:{messages}:{digest[:16]}"
        if key in self._fired:
            return True
        self._fired[key] = now_ms
        cap_calls(self._fired, CAPACITY)
        return False


def cap_calls(calls: dict[str, Any], most: float) -> int:
    """Drop the oldest calls until ``most`` are left, rounded down and at least 1; return how many were dropped."""
    if math.isnan(most):
        return 0
    extra = len(calls) - max(1, math.floor(min(most, len(calls))))
    for key in list(calls)[: max(0, extra)]:
        del calls[key]
    return max(0, extra)
