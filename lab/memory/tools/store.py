"""The tool ``memory_store`` (E-38, E-90): store one memory, with or without a vector."""

from __future__ import annotations

import hashlib
from typing import Any

from lab.base.utf16 import WHITESPACE, js_utf8
from lab.memory.tools.context import Embedded, ToolContext, ToolResult
from lab.memory.tools.preflight import Verdict, preflight
from lab.memory.tools.redact import is_secret
from lab.recordings.cleaning import language_of
from lab.retrieval.row import Row
from lab.systems.openclaw.memory import importance_score, is_hard_rule, label_of_score, normal_category
from lab.systems.openclaw.recall.markers import NAME
from lab.systems.openclaw.recall.scope import resolve_scope
from lab.systems.openclaw.table.entries import Entry
from lab.systems.openclaw.upstream.js import js_json, round6

TOOL, TRUST, SOURCE_KIND = "memory_store", "user", "tool"


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
        return "\nStored without a vector, because there is no embedder: found by its words."
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
    """Return the verdict of the preflight, or None if it is off."""
    guard = context.preflight
    if guard is None or not guard.settings.enabled:
        return None
    identity = intent_id(fields)
    intent = {"id": identity, "intent_id": identity, "tool": TOOL, "source": NAME, "requester": "agent", **fields}
    return preflight(guard.settings, intent, guard.run, context.now_ms, strict=not context.upstream)
