"""The plugin's tools (E-37). So far ``memory_recall``: what an agent asks for itself, without labels in its way."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lab.recordings.model import IGNORE
from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import EngineConfig, ReceiptSettings
from lab.systems.openclaw.recall.markers import fallback_markers
from lab.systems.openclaw.recall.receipt import Final, lifecycle_receipt
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scope import Normalised, barred, resolve_scope, scope_plan
from lab.systems.openclaw.recall.scoped import select_in_scopes
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.select.outcome import Picked
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans
from lab.systems.openclaw.upstream.js import to_number
from lab.utf16 import WHITESPACE, js_length, js_slice

DEFAULT_LIMIT, MAX_LIMIT = 5, 50
PREVIEW_CHARS = 240
# The tiers of an automatic recall, and those that it never reaches.
PLANS = (*recall_plans(), TierPlan("ignore", (IGNORE,)))
DARK = "⚠️ Vector recall unavailable (embeddings). Showing lexical-only (FTS) results.\n\n"


@dataclass(frozen=True, slots=True)
class Recalled:
    """What ``memory_recall`` answers: text for the agent, the hits with their rows, the receipt, the log."""

    text: str
    hits: tuple[tuple[Picked, Row], ...]
    receipt: dict[str, Any]
    log: tuple[str, ...]


def clamp_limit(raw: object) -> int:
    """How many memories are wanted: whole, 1 to 50; 5 for what is no number. Nothing at all counts as 0, so 1."""
    number = to_number(raw)
    return min(MAX_LIMIT, max(1, math.floor(number))) if math.isfinite(number) else DEFAULT_LIMIT


def memory_recall(
    query: str, config: EngineConfig, memories: Memories, *, limit: int = DEFAULT_LIMIT, scope: str | None = None
) -> Recalled:
    """Recall for an agent's own question (E-37): always tier_first_v1, with ``ignore`` as the last tier.

    No prompt is trivial here, no TODO outlived, and a kept Working Set is returned like any row.
    """
    text, receipts, policy = query.strip(WHITESPACE), config.receipts, config.scope_policy
    mode, found = resolve_scope(scope, text, policy)
    receipt = _receipt(config, limit, mode, found)
    if not text:
        return Recalled("No recall query provided.", (), receipt | _unasked(receipts, mode, found.scope), ())
    tiers = Tiers(memories.view, memories.rows, min(MAX_LIMIT, 2 * limit), memories.shared)
    why = barred(policy, invalid=found.invalid)
    selection, fallback = select_in_scopes(
        scope_plan(found.scope, policy, allow_fallback=why is None),
        limit,
        lambda within, places: tier_first_v1(PLANS, places, lambda plan: tiers.fused(plan, within)),
        policy,
        why,
    )
    hits = tuple((one, memories.by_id[one.candidate.id]) for one in selection.picked[:limit])
    receipt |= {
        "ftsCount": sum(len(one.lanes.fts) for one in tiers.results),
        "vecCount": sum(len(one.lanes.vec) for one in tiers.results),
        "fusedCount": len(hits),
        "policyTier": selection.tier_counts[-1].tier if selection.tier_counts else None,
        "fallback": fallback,
    }
    dark = memories.no_vector
    if receipts.enabled:
        fts, vec = tiers.lane_summaries(receipts)
        receipt["lifecycle"] = lifecycle_receipt(
            receipts,
            scope=found.scope,
            scope_mode=mode,
            rejected=[*([dark] if dark else ()), *selection.rejected],
            tier_counts=selection.tier_counts,
            fts=fts,
            vec=vec,
            final=[Final(row.id, row.importance_label, row.scope) for _, row in hits],
            injected=len(hits),
            parts={"fallback": fallback},
        )
    log = fallback_markers(policy, found.scope, fallback, why)
    return Recalled((DARK if dark else "") + _view(hits), hits, receipt, tuple(log))


def _unasked(receipts: ReceiptSettings, mode: str, scope: str) -> dict[str, Any]:
    """What a receipt says of a call without a question."""
    if not receipts.enabled:
        return {}
    reason = "no_query"
    return {
        "lifecycle": lifecycle_receipt(receipts, scope=scope, scope_mode=mode, skip_reason=reason, rejected=[reason])
    }


def _receipt(config: EngineConfig, limit: int, mode: str, found: Normalised) -> dict[str, Any]:
    """What every answer says of itself (E-45), less the names of the table and of the model."""
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
