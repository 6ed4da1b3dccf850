"""The tool ``memory_export`` (E-39, E-88): memories as JSON Lines or a JSON array, oldest first, without vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lab.base.files import cannot_write, write_atomically
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.redact import redactor
from lab.retrieval.row import Row
from lab.systems.openclaw.table.admin import (
    JSON,
    admin_category,
    admin_scope,
    filtered,
    filters,
    format_of,
    is_working_set,
    oldest_first,
    shown_label,
    transfer_limit,
)
from lab.systems.openclaw.upstream.js import js_json


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
    """Return fields of texts, lists of texts and numbers, with secrets replaced."""
    return {
        name: clean(value)
        if isinstance(value, str)
        else [clean(one) for one in value]
        if isinstance(value, list)
        else value
        for name, value in fields.items()
    }
