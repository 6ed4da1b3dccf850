"""The tool ``memory_forget`` (E-38, E-89): delete a memory by its id, or list candidates for a query."""

from __future__ import annotations

import math
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.utf16 import WHITESPACE, js_slice
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.redact import redactor
from lab.systems.openclaw.memory import is_uuid
from lab.systems.openclaw.table.admin import SCHEMA_ID, is_working_set

CANDIDATES, CANDIDATE_CHARS = 5, 60


def memory_forget(context: ToolContext, *, memory_id: str | None = None, query: str | None = None) -> ToolResult:
    """Delete the memory with this id; with a query only, list the five nearest memories and delete nothing.

    Raises :class:`UnusableInput` for an id that is no UUID, and for the table's own row. Profile ``seed`` also deletes
    a stored Working Set, and reports an id that the table does not have; the plugin reports that as deleted.
    """
    started = context.now_ms()
    if memory_id:
        return _delete(context, memory_id, started)
    if query and query.strip(WHITESPACE):
        return _candidates(context, query, started)
    return ToolResult("Provide memoryId (or query to list candidates).", {"error": "missing_param"})


def _delete(context: ToolContext, identity: str, started: int) -> ToolResult:
    if context.read_only:
        return context.refuse_write("memory_forget", "forget memory")
    if identity == SCHEMA_ID:
        raise UnusableInput("Refusing to delete reserved schema row.")
    if not is_uuid(identity) and (context.upstream or not is_working_set(identity)):
        raise UnusableInput(f"Invalid memoryId format: {identity}")
    deleted = context.table.delete([identity])
    details: dict[str, Any] = {"action": "deleted", "id": identity}
    if not context.upstream:
        details["found"] = deleted > 0
    details["receipt"] = context.timed(started)
    if deleted or context.upstream:
        return ToolResult(f"Memory forgotten: {identity}", details)
    return ToolResult(f"No memory has the id {identity}; nothing was deleted.", details | {"action": "not_found"})


def _candidates(context: ToolContext, query: str, started: int) -> ToolResult:
    if context.embed is None:
        return context.without_provider()
    (embedded,) = context.vectors([query])
    if embedded.reason is not None:
        text = f"Cannot search for candidates without a vector of the query ({embedded.reason}). Provide memoryId."
        return ToolResult(text, {"error": embedded.reason, "receipt": context.timed(started)})
    # The plugin shows candidates as they are stored.
    clean = str if context.upstream else redactor(upstream=False)
    candidates: list[dict[str, Any]] = [
        {
            "id": near.row.id,
            "text": clean(near.row.text),
            "category": near.row.category,
            "score": 1 / (1 + near.distance),
            "createdAt": near.row.created_at,
        }
        for near in context.table.nearest(embedded.vector, CANDIDATES)
    ]
    receipt = context.backend | {"model": context.model, "latencyMs": context.timed(started)["latencyMs"]}
    details = {"action": "candidates", "found": len(candidates), "candidates": candidates, "receipt": receipt}
    if not candidates:
        return ToolResult("No matching memories found.", details)
    lines = [
        f"- {found['id']} [{found['category']}] {math.floor(100 * found['score'] + 0.5)}% "
        f"{js_slice(found['text'], CANDIDATE_CHARS)}…"
        for found in candidates
    ]
    shown = "\n".join(lines)
    return ToolResult(f"Found {len(candidates)} candidates. Re-run with memoryId to delete:\n\n{shown}", details)
