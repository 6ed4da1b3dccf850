"""The plugin's tools (spec 11). So far ``memory_recall``: what an agent asks for itself, without labels in its way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lab.recordings.model import IGNORE
from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.js import to_number
from lab.systems.openclaw.recall.receipt import Final, lifecycle_receipt
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scope import Normalised, resolve_scope, scope_plan
from lab.systems.openclaw.recall.scoped import select_in_scopes
from lab.systems.openclaw.recall.stages import fallback_markers
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.select.outcome import Picked
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans
from lab.utf16 import WHITESPACE, js_length, js_slice

DEFAULT_LIMIT, MAX_LIMIT = 5, 50
PREVIEW_CHARS = 240
DARK = "⚠️ Vector recall unavailable (embeddings). Showing lexical-only (FTS) results.\n\n"


@dataclass(frozen=True, slots=True)
class Recalled:
    """What ``memory_recall`` answers: text for the agent, the hits with their rows, the receipt, the log."""

    text: str
    hits: tuple[tuple[Picked, Row], ...]
    receipt: dict[str, Any]
    log: tuple[str, ...]


def clamp_limit(raw: Any) -> int:
    """How many memories are wanted: whole, 1 to 50; 5 for what is no number. Nothing at all counts as 0, so 1."""
    number = to_number(raw)
    return min(MAX_LIMIT, max(1, math.floor(number))) if math.isfinite(number) else DEFAULT_LIMIT


def memory_recall(
    query: str, config: EngineConfig, memories: Memories, *, limit: int = DEFAULT_LIMIT, scope: str | None = None
) -> Recalled:
    """Recall for an agent's own question (spec 11.1): always tier_first_v1, with ``ignore`` as the last tier.

    No prompt is trivial here, no TODO outlived, and a kept Working Set is returned like any row.
    """
    text = query.strip(WHITESPACE)
    mode, found = resolve_scope(scope, text, config.scope_policy)
    if not text:
        lifecycle = lifecycle_receipt(
            config.receipts, scope=found.scope, scope_mode=mode, skip_reason="no_query", rejected=["no_query"]
        )
        receipt = _receipt(config, limit, mode, found) | ({"lifecycle": lifecycle} if config.receipts.enabled else {})
        return Recalled("No recall query provided.", (), receipt, ())
    tiers = Tiers(memories.view, memories.rows, min(MAX_LIMIT, 2 * limit), memories.shared)
    plans = (*recall_plans(), TierPlan("ignore", (IGNORE,)))
    allowed = not (found.invalid and config.scope_policy.skip_fallback_on_invalid)
    selected = select_in_scopes(
        scope_plan(found.scope, config.scope_policy, allow_fallback=allowed),
        limit,
        lambda within, places: tier_first_v1(plans, places, lambda plan: tiers.fused(plan, within)),
        config.scope_policy,
        allow_fallback=allowed,
        suppressed=None if allowed else "invalid_scope",
    )
    chosen = selected.selection.picked[:limit]
    hits = tuple((one, memories.by_id[one.candidate.id]) for one in chosen)
    counts = selected.selection.tier_counts
    fts, vec = tiers.told(config.receipts)
    dark = memories.no_vector
    receipt = _receipt(config, limit, mode, found) | {
        "ftsCount": sum(len(one.lanes.fts) for one in tiers.searched),
        "vecCount": sum(len(one.lanes.vec) for one in tiers.searched),
        "fusedCount": len(chosen),
        "policyTier": counts[-1].tier if counts else None,
        "fallback": selected.fallback,
    }
    if config.receipts.enabled:
        receipt["lifecycle"] = lifecycle_receipt(
            config.receipts,
            scope=found.scope,
            scope_mode=mode,
            rejected=[*([dark] if dark else ()), *selected.selection.rejected],
            tier_counts=counts,
            fts=fts,
            vec=vec,
            final=[Final(row.id, row.importance_label, row.scope) for _, row in hits],
            injected=len(chosen),
            parts={"fallback": selected.fallback},
        )
    log = fallback_markers(config.scope_policy, found.scope, selected.fallback, allowed=allowed)
    return Recalled((DARK if dark else "") + _view(hits), hits, receipt, tuple(log))


def _receipt(config: EngineConfig, limit: int, mode: str, found: Normalised) -> dict[str, Any]:
    """What every answer says of itself (spec 12.7), less the names of the table and of the model."""
    return {
        "limit": limit,
        "ftsCount": 0,
        "vecCount": 0,
        "fusedCount": 0,
        "policyTier": None,
        "scopeMode": mode,
        "scope": found.scope,
        "scopeFilterApplied": True,
        "scopeValidation": {
            "validationMode": config.scope_policy.validation_mode,
            "invalid": found.invalid,
            "normalized": found.normalized,
        },
    }


def _view(hits: tuple[tuple[Picked, Row], ...]) -> str:
    if not hits:
        return "No relevant memories found."
    lines = [f"Found {len(hits)} relevant items:", "", f"Memories ({len(hits)}):"]
    lines += [
        f"{number}. [{row.category}] {_preview(row.text)} ({math.floor(100 * one.candidate.score + 0.5)}%)"
        for number, (one, row) in enumerate(hits, 1)
    ]
    return "\n".join(lines)


def _preview(text: str) -> str:
    return text if js_length(text) <= PREVIEW_CHARS else f"{js_slice(text, PREVIEW_CHARS)}…"
