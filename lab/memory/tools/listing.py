"""Tools that only read a table: ``memory_list`` (E-86), ``memory_stats`` (E-87) and ``memory_export`` (E-39, E-88)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median
from typing import Any

from lab.base.files import cannot_write, write_atomically
from lab.base.utf16 import js_length
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.redact import redactor
from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Row
from lab.systems.openclaw.js import js_json
from lab.systems.openclaw.table.admin import (
    JSON,
    admin_category,
    admin_limit,
    admin_scope,
    filtered,
    filters,
    format_of,
    is_working_set,
    iso_time,
    listed,
    newest_first,
    numbered,
    oldest_first,
    shown_label,
    transfer_limit,
)

_DAY_MS = 86_400_000
_CENT = Decimal("0.01")


def memory_list(
    context: ToolContext, *, scope: object = None, category: object = None, limit: object = None
) -> ToolResult:
    """List memories newest first, then by id; 50 by default and at most 5,000."""
    started = context.now_ms()
    of_scope, kind, most = admin_scope(scope), admin_category(category), admin_limit(limit)
    matched = newest_first(filtered(context.table.rows(), of_scope, kind))
    clean = redactor(upstream=context.upstream)
    items = [listed_row(row, clean) for row in matched[:most]]
    receipt: dict[str, Any] = {
        "operation": "list",
        "filtersApplied": filters(of_scope, kind, limit=most),
        "matchedCount": len(matched),
        "returnedCount": len(items),
        **context.timed(started),
    }
    details = {"count": len(items), "items": items, "receipt": receipt}
    if not items:
        return ToolResult("No memories matched the current filters.", details)
    return ToolResult(f"Listed {len(items)} memories:\n\n{numbered([*map(listed, items)])}", details)


def listed_row(row: Row, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return a row as the list shows it; ``clean`` replaces secrets."""
    return {
        "id": row.id,
        "category": row.category,
        "importance": row.importance,
        "importance_label": shown_label(row),
        "scope": row.scope,
        "trust_tier": row.trust_tier,
        "createdAt": row.created_at,
        "createdAtIso": iso_time(row.created_at),
        "text": clean(row.text),
    }


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


def statistics_of(rows: Sequence[Row], now_ms: float) -> dict[str, Any]:
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
            "p50Chars": math.floor(median(lengths) + 0.5) if lengths else 0,
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


def memory_export(
    context: ToolContext,
    path: Path,
    *,
    file_format: object = None,
    scope: object = None,
    category: object = None,
    limit: object = None,
    redact: bool = True,
    carried: Mapping[str, Mapping[str, Any]] | None = None,
) -> ToolResult:
    """Write memories to a file, atomically; the same table always gives the same bytes.

    Missing folders are created. Profile ``seed`` leaves stored Working Sets out, because an import would refuse their
    ids and the engine builds them again. It also writes what memories ``carried``: values of the lab's columns.
    """
    started = context.now_ms()
    kind, of_scope, only = format_of(str(path), file_format), admin_scope(scope), admin_category(category)
    most = transfer_limit(limit, upstream=context.upstream)
    rows = [row for row in context.table.rows() if context.upstream or not is_working_set(row.id)]
    chosen = oldest_first(filtered(rows, of_scope, only))[:most]
    known = {} if context.upstream or carried is None else carried
    text = exported(chosen, kind, redactor(upstream=context.upstream) if redact else str, known)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Memories are private, whatever was replaced in them.
        write_atomically(path, text.encode("utf-8", "surrogatepass"), private=True)
    except OSError as error:
        raise cannot_write(path, error) from None
    receipt: dict[str, Any] = {
        "operation": "export",
        "filtersApplied": filters(of_scope, only, limit=most, redact=redact),
        "returnedCount": len(chosen),
        "output": {"path": str(path), "format": kind},
        **context.timed(started),
    }
    details = {"path": str(path), "format": kind, "count": len(chosen), "receipt": receipt}
    return ToolResult(f"Exported {len(chosen)} memories to {path}.", details)


def exported(
    rows: Sequence[Row], kind: str, clean: Callable[[str], str], carried: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return rows and what they carry as ``json`` or ``jsonl`` text; ``clean`` replaces secrets in their texts."""
    fields = [exported_row(row, clean) | _cleaned(carried.get(row.id, {}), clean) for row in rows]
    if kind != JSON:
        return "".join(f"{js_json(row)}\n" for row in fields)
    if not fields:
        return "[]\n"
    objects = (
        "  {\n" + ",\n".join(f"    {js_json(key)}: {js_json(value)}" for key, value in row.items()) + "\n  }"
        for row in fields
    )
    return "[\n" + ",\n".join(objects) + "\n]\n"


def exported_row(row: Row, clean: Callable[[str], str]) -> dict[str, Any]:
    """Return the fields of a row in the order of the export."""
    return {
        "id": row.id,
        "text": clean(row.text),
        "category": row.category,
        "importance": row.importance,
        "importance_label": shown_label(row),
        "scope": row.scope,
        "trust_tier": row.trust_tier,
        "createdAt": row.created_at,
    }


def _cleaned(fields: Mapping[str, Any], clean: Callable[[str], str]) -> dict[str, Any]:
    return {
        name: clean(value)
        if isinstance(value, str)
        else [clean(one) for one in value]
        if isinstance(value, list)
        else value
        for name, value in fields.items()
    }
