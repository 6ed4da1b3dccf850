"""The tools ``memory_docs_ingest`` and ``memory_docs_search`` (E-47, E-48): index and search documents by hand."""

from __future__ import annotations

import sqlite3
from typing import Any

from lab.base.errors import LabError
from lab.memory.tools.context import ToolContext, ToolResult
from lab.systems.openclaw.config.settings import DocsSettings
from lab.systems.openclaw.docs.globs import plan_ingest, read_tool_input
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane, docs_view, shown_doc
from lab.systems.openclaw.js import to_number
from lab.systems.openclaw.recall.receipt import marker
from lab.systems.openclaw.recall.scope import resolve_scope

INGEST, SEARCH = "memory_docs_ingest", "memory_docs_search"
DISABLED = "docs_cold_lane_disabled"


def memory_docs_ingest(context: ToolContext, index: DocsIndex | None, raw_input: object = None) -> ToolResult:
    """Update the documents index to the current files and return the counts.

    ``raw_input`` may name ``sourceRoots`` inside the configured roots, and ``sourceGlobs``. Files and embedders that
    fail are reported in the receipt.
    """
    started = context.now_ms()
    if context.read_only:
        return context.refuse_write(INGEST, "ingest docs", receipt=False)
    settings = context.config.docs
    if not settings.enabled or index is None:
        return _disabled()
    given = read_tool_input(raw_input)
    try:
        receipt = index.ingest(
            plan_ingest(settings, given),
            max_chunk_chars=settings.max_chunk_chars,
            with_vectors=settings.embed_on_ingest,
        )
    except (LabError, OSError, sqlite3.Error) as error:
        receipt = {"skipped": False, "skipReason": None, "error": f"docs_ingest_failed: {type(error).__name__}"}
    dropped = {"droppedSourceRoots": given.dropped_roots, "droppedSourceGlobs": given.dropped_globs}
    receipt = {**receipt, **dropped, "latencyMs": context.timed(started)["latencyMs"]}
    text = f"Docs ingest skipped ({receipt['skipReason']})." if receipt["skipReason"] else _counts(receipt)
    details: dict[str, Any] = {"ok": not receipt["skipped"] and "error" not in receipt, "receipt": receipt}
    if "filesMatched" not in receipt:
        details["error"] = "docs_ingest_failed"
    return ToolResult(text, details, (marker("docsColdLane.ingest", receipt),))


def memory_docs_search(
    context: ToolContext, lane: DocsLane, query: str, *, limit: object = None, scope: str | None = None
) -> ToolResult:
    """Search the documents within the scope of the query; at most ``docsColdLane.maxItems`` are returned."""
    settings = context.config.docs
    if not settings.enabled:
        return _disabled()
    _, resolved = resolve_scope(scope, query, context.config.scope_policy)
    found = lane.consult(query, resolved.scope, _requested(limit, settings), trigger="manual")
    log = (found.mark(),)
    docs = [shown_doc(hit, upstream=context.upstream) for hit in found.hits]
    named = "hits" if context.upstream else "docs"
    details: dict[str, Any] = {"count": len(docs), named: docs, "receipt": found.receipt}
    if found.receipt["error"]:
        details["error"] = found.receipt["error"]
    if not docs:
        why = f" ({details['error']})" if "error" in details else ""
        return ToolResult(f"No docs cold-lane matches found{why}.", details, log)
    return ToolResult(f"Found {len(docs)} docs snippets:\n\n{docs_view(found.hits)}", details, log)


def _requested(limit: object, settings: DocsSettings) -> int:
    number = to_number(limit) if limit is not None else settings.max_items
    return int(number) if 1 <= number <= settings.max_items else settings.max_items


def _disabled() -> ToolResult:
    return ToolResult("The docs cold lane is off (docsColdLane.enabled).", {"error": DISABLED})


def _counts(receipt: dict[str, Any]) -> str:
    if "filesMatched" not in receipt:
        return f"Docs ingest failed ({receipt['error']})."
    written = receipt["chunks_inserted"] + receipt["chunks_updated"]
    warning = f"\n⚠️ {receipt['error']}" if "error" in receipt else ""
    return f"Docs ingested: files={receipt['files_ingested']}, chunks written={written}.{warning}"
