"""The tool ``memory_list`` (E-86): the newest memories of a scope and a category, with secrets replaced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.redact import redactor
from lab.retrieval.row import Row
from lab.systems.openclaw.table.admin import (
    admin_category,
    admin_limit,
    admin_scope,
    filtered,
    filters,
    iso_time,
    newest_first,
    numbered,
    preview,
    shown_label,
)


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
    lines = [f"[{item['category']}|{item['importance_label']}] {preview(item['text'])}" for item in items]
    return ToolResult(f"Listed {len(items)} memories:\n\n{numbered(lines)}", details)


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
