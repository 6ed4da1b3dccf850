"""The tool ``memory_stats`` (E-87): how many memories there are, how long and how old they are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from lab.base.utf16 import js_length
from lab.memory.tools.context import ToolContext, ToolResult
from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.systems.openclaw.table.admin import Fields, admin_category, admin_scope, filtered, filters

_DAY_MS = 86_400_000
_CENT = Decimal("0.01")


def memory_stats(context: ToolContext, *, scope: object = None, category: object = None) -> ToolResult:
    """Return counts by scope and category, and a summary of lengths (UTF-16 units) and ages (days)."""
    started = context.now_ms()
    of_scope, kind = admin_scope(scope), admin_category(category)
    rows = filtered(context.table.rows(), of_scope, kind)
    receipt: dict[str, Any] = {
        "operation": "stats",
        "filtersApplied": filters(of_scope, kind),
        "returnedCount": len(rows),
        **context.timed(started),
    }
    statistics = statistics_of(rows, started)
    return ToolResult(f"Memory stats ready (count={len(rows)}).", {"stats": statistics, "receipt": receipt})


def statistics_of(rows: Sequence[Fields], now_ms: float) -> dict[str, Any]:
    """Return the statistics of rows.

    A row without a time, or with one that is not positive, is left out of the youngest and the oldest, and counts with
    age 0 in the mean. A time in the future is age 0 as well.
    """
    lengths = sorted(js_length(row.text) for row in rows)
    times = [row.created_at for row in rows if row.created_at > 0]
    ages = [max(0.0, (now_ms - time) / _DAY_MS) for time in times]
    count = len(rows)
    return {
        "count": count,
        "byScope": _counts(row.scope or GLOBAL for row in rows),
        "byCategory": _counts(row.category for row in rows),
        "size": {
            "minChars": lengths[0] if lengths else 0,
            "maxChars": lengths[-1] if lengths else 0,
            "avgChars": hundredths(sum(lengths) / count) if count else 0,
            "p50Chars": _median(lengths),
        },
        "ageDays": {
            "min": hundredths(min(ages, default=0)),
            "max": hundredths(max(ages, default=0)),
            "avg": hundredths(sum(ages) / count) if count else 0,
        },
        "oldestCreatedAt": min(times, default=None),
        "newestCreatedAt": max(times, default=None),
    }


def hundredths(value: float) -> float:
    """Round half up at two decimals on the exact binary value, as JavaScript's ``toFixed(2)`` does."""
    return float(Decimal(value).quantize(_CENT, ROUND_HALF_UP))


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda entry: id_order(entry[0])))


def _median(lengths: Sequence[int]) -> int:
    """Return the middle length, or the mean of the two in the middle, rounded half up."""
    if not lengths:
        return 0
    middle = len(lengths) // 2
    return lengths[middle] if len(lengths) % 2 else math.floor((lengths[middle - 1] + lengths[middle]) / 2 + 0.5)
