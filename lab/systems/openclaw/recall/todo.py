"""How old a TODO may be (E-33): a window for what counts as noted before, a lifetime for what is still injected."""

from __future__ import annotations

import math

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def dedupe_cutoff_ms(now_ms: float, hours: float) -> float:
    """Before this moment a TODO is no duplicate of one that is noted now."""
    return now_ms - _whole(hours) * HOUR_MS


def stale_cutoff_ms(now_ms: float, days: float) -> float:
    """A TODO noted before this moment is not injected any more."""
    return now_ms - _whole(days) * DAY_MS


def is_within_dedupe_window(created_at: float, now_ms: float, hours: float) -> bool:
    """Whether a TODO is recent enough to be the duplicate of a new one. One without a time never is."""
    return math.isfinite(created_at) and created_at > 0 and created_at >= dedupe_cutoff_ms(now_ms, hours)


def is_stale(created_at: float, now_ms: float, days: float) -> bool:
    """Whether a TODO has outlived its days. One without a time never has."""
    return math.isfinite(created_at) and 0 < created_at < stale_cutoff_ms(now_ms, days)


def _whole(value: float) -> int:
    """A window in whole units, at least one; what is no number counts as one."""
    return max(1, math.floor(value)) if math.isfinite(value) else 1
