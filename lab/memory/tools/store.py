"""The tools ``memory_store`` (E-38, E-90) and ``memory_forget`` (E-38, E-89), each for one memory."""

from __future__ import annotations

import hashlib
import math
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.utf16 import WHITESPACE, js_slice, js_utf8
from lab.memory.tools.context import TOO_LONG, UNAVAILABLE, Embedded, ToolContext, ToolResult
from lab.memory.tools.preflight import Verdict, preflight
from lab.memory.tools.redact import is_secret, redactor
from lab.recordings.cleaning import language_of
from lab.retrieval.contract import Row
from lab.systems.openclaw.js import js_json, round6
from lab.systems.openclaw.memory import importance_score, is_hard_rule, is_uuid, label_of_score, normal_category
from lab.systems.openclaw.recall.receipt import NAME
from lab.systems.openclaw.recall.scope import resolve_scope
from lab.systems.openclaw.table.admin import SCHEMA_ID, is_working_set
from lab.systems.openclaw.table.schema import Entry

TOOL, TRUST, SOURCE_KIND = "memory_store", "user", "tool"
CANDIDATES, CANDIDATE_CHARS = 5, 80


_NO_CANDIDATES = {
    TOO_LONG: "Forget query is too long for embeddings. Cannot search deletion candidates.",
    UNAVAILABLE: f"{NAME} embeddings provider is unavailable right now.",
}


def memory_store(
    context: ToolContext,
    text: str,
    *,
    importance: object = None,
    category: object = "other",
    scope: str | None = None,
) -> ToolResult:
    """Store a text verbatim. Its label follows from ``importance`` alone; there is no search for duplicates.

    A text that cannot be embedded is stored with a zero vector and a warning. Without a provider the plugin refuses to
    store; profile ``seed`` stores, and refuses texts that look like secrets (E-35).
    """
    started = context.now_ms()
    if context.read_only:
        return context.refuse_write(TOOL, "store memory")
    if not text.strip(WHITESPACE):
        return ToolResult("Provide text to store.", {"error": "missing_text"})
    if context.upstream and context.embed is None:
        return context.without_provider()
    if not context.upstream and is_secret(text, scope):
        why = "Refusing to store memory: the text or its scope looks like a key, a token or a password."
        return ToolResult(why, {"error": "secret_like", "receipt": context.timed(started)})
    mode, resolved = resolve_scope(scope, text, context.config.scope_policy)
    score, kind = importance_score(importance), normal_category(category)
    log = (f"{NAME}:scopeValidation write={TOOL} invalid scope; fallback={resolved.scope}",) if resolved.invalid else ()
    receipt: dict[str, Any] = {
        **context.backend,
        "model": context.model,
        "latencyMs": 0,
        "scope": resolved.scope,
        "scopeMode": mode,
        "scopeFilterApplied": True,
        "scopeValidation": {
            "validationMode": context.config.scope_policy.validation_mode,
            "invalid": resolved.invalid,
            "normalized": resolved.normalized,
        },
        "embeddingSkipped": None,
        "embeddingSkipReason": None,
    }
    verdict = _judged(context, {"scope": resolved.scope, "category": kind, "text": text, "importance": score})
    receipt["weiJiMemoryPreflight"] = verdict and verdict.receipt
    if verdict and verdict.blocked:
        receipt["latencyMs"] = context.timed(started)["latencyMs"]
        status = verdict.receipt["governorStatus"] or verdict.receipt["wrapperFailReason"] or "blocked"
        blocked = {"error": "weiji_memory_preflight_blocked", "receipt": receipt}
        return ToolResult(f"Memory write blocked by Wei Ji preflight ({status}).", blocked, log)
    (embedded,) = context.vectors([text])
    label = label_of_score(score)
    identity = context.new_id()
    row = Row(
        identity,
        identity,
        text,
        text,
        started,
        kind,
        label,
        resolved.scope,
        TRUST,
        score,
        is_hard_rule(text),
        embedded=embedded.reason is None,
    )
    context.table.add([Entry(row, embedded.vector, SOURCE_KIND, TOOL, language_of([text]))])
    receipt |= {
        "latencyMs": context.timed(started)["latencyMs"],
        "embeddingSkipped": embedded.reason is not None,
        "embeddingSkipReason": embedded.reason,
        # The lab mirrors nothing.
        "gbrainMirror": None,
    }
    details: dict[str, Any] = {
        "action": "created",
        "id": row.id,
        "createdAt": row.created_at,
        "category": row.category,
        "importance": row.importance,
        "importance_label": row.importance_label,
        "scope": row.scope,
        "receipt": receipt,
    }
    return ToolResult(f"Stored memory ({kind}, {label}): {row.id}{skip_warning(context, embedded)}", details, log)


def skip_warning(context: ToolContext, embedded: Embedded) -> str:
    """Return the line that says why a memory has no vector; blank if it has one."""
    if embedded.reason is None:
        return ""
    if context.embed is None:
        return "\n⚠️ Stored without a vector, because there is no embedder: found by its words."
    return (
        f"\n⚠️ Embedding skipped ({embedded.reason}). Stored with a zero vector; recall quality may degrade. "
        "Consider tightening embedding clamp (embedding.maxChars/headChars/maxBytes)."
    )


def intent_id(fields: dict[str, Any]) -> str:
    """Return the id by which the preflight knows a memory: a hash of scope, category, text and importance."""
    score = fields["importance"]
    value = {**fields, "importance": None if score is None else round6(score)}
    return f"mem-intent-{hashlib.sha1(js_utf8(js_json(value)), usedforsecurity=False).hexdigest()[:20]}"


def _judged(context: ToolContext, fields: dict[str, Any]) -> Verdict | None:
    guard = context.preflight
    if guard is None or not guard.settings.enabled:
        return None
    identity = intent_id(fields)
    intent = {"id": identity, "intent_id": identity, "tool": TOOL, "source": NAME, "requester": "agent", **fields}
    return preflight(guard.settings, intent, guard.run, context.now_ms, strict=not context.upstream)


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
        return context.refuse_write("memory_forget", "forget memory", id=identity)
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
    receipt = context.backend | {"model": context.model, "latencyMs": context.timed(started)["latencyMs"]}
    details: dict[str, Any] = {"action": "candidates", "found": 0}
    if embedded.reason is not None:
        text = f"Cannot search for candidates without a vector of the query ({embedded.reason}). Provide memoryId."
        text = _NO_CANDIDATES[embedded.reason] if context.upstream else text
        return ToolResult(text, details | {"error": embedded.reason, "receipt": receipt})
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
    if not candidates:
        return ToolResult("No matching memories found.", details | {"receipt": receipt})
    details |= {"found": len(candidates), "candidates": candidates, "receipt": receipt}
    lines = [
        f"- {found['id']} [{found['category']}] {math.floor(100 * found['score'] + 0.5)}% "
        f"{js_slice(found['text'], CANDIDATE_CHARS)}…"
        for found in candidates
    ]
    shown = "\n".join(lines)
    return ToolResult(f"Found {len(candidates)} candidates. Re-run with memoryId to delete:\n\n{shown}", details)
