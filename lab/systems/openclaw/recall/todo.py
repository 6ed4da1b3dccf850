"""Age limits of TODOs (E-33): a window for duplicates, and a lifetime after which they are not injected."""

from __future__ import annotations

import math

HOUR_MS, DAY_MS = 3_600_000, 86_400_000


def dedupe_cutoff_ms(now_ms: float, hours: float) -> float:
    """Return the time before which a TODO is no duplicate of one recorded now, in epoch milliseconds."""
    return now_ms - _whole(hours) * HOUR_MS


def stale_cutoff_ms(now_ms: float, days: float) -> float:
    """Return the time before which recorded TODOs are no longer injected, in epoch milliseconds."""
    return now_ms - _whole(days) * DAY_MS


def is_within_dedupe_window(created_at: float, now_ms: float, hours: float) -> bool:
    """Whether a TODO is recent enough to be a duplicate of a new one; never without a time."""
    return math.isfinite(created_at) and created_at > 0 and created_at >= dedupe_cutoff_ms(now_ms, hours)


def is_stale(created_at: float, now_ms: float, days: float) -> bool:
    """Whether a TODO is older than ``days``; never without a time."""
    return math.isfinite(created_at) and 0 < created_at < stale_cutoff_ms(now_ms, days)


def _whole(value: float) -> int:
    """Return a window in whole units, at least 1; 1 for values that are not finite."""
    return max(1, math.floor(value)) if math.isfinite(value) else 1
