"""The plugin's tool ``memory_recall`` (E-37), with which an agent searches all memories, whatever their labels."""

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
# The tiers of automatic recall, and ignore, which automatic recall never searches.
PLANS = (*recall_plans(), TierPlan("ignore", (IGNORE,)))
DARK = "⚠️ Vector recall unavailable (embeddings). Showing lexical-only (FTS) results.\n\n"


@dataclass(frozen=True, slots=True)
class Recalled:
    """The result of ``memory_recall``: text for the agent, hits with their rows, receipt, log."""

    text: str
    hits: tuple[tuple[Picked, Row], ...]
    receipt: dict[str, Any]
    log: tuple[str, ...]


def clamp_limit(raw: object) -> int:
    """Return a limit as a whole number from 1 to 50; 5 if it is not a number. None counts as 0, so it gives 1."""
    number = to_number(raw)
    return min(MAX_LIMIT, max(1, math.floor(number))) if math.isfinite(number) else DEFAULT_LIMIT


def memory_recall(
    query: str, config: EngineConfig, memories: Memories, *, limit: int = DEFAULT_LIMIT, scope: str | None = None
) -> Recalled:
    """Recall for an agent's query (E-37): always tier_first_v1, with ``ignore`` as the last tier.

    No prompt is trivial here, no TODO is stale, and a stored Working Set is returned like any row.
    """
    text, receipts, policy = query.strip(WHITESPACE), config.receipts, config.scope_policy
    mode, resolved = resolve_scope(scope, text, policy)
    receipt = _receipt(config, limit, mode, resolved)
    if not text:
        return Recalled("No recall query provided.", (), receipt | _without_query(receipts, mode, resolved.scope), ())
    tiers = Tiers(memories.view, memories.rows, min(MAX_LIMIT, 2 * limit), memories.shared)
    why = barred(policy, invalid=resolved.invalid)
    selection, fallback = select_in_scopes(
        scope_plan(resolved.scope, policy, allow_fallback=why is None),
        limit,
        lambda within, slots: tier_first_v1(PLANS, slots, lambda plan: tiers.fused(plan, within)),
        policy,
        why,
    )
    hits = tuple((pick, memories.by_id[pick.candidate.id]) for pick in selection.picked[:limit])
    receipt |= {
        "ftsCount": sum(len(result.lanes.fts) for result in tiers.results),
        "vecCount": sum(len(result.lanes.vec) for result in tiers.results),
        "fusedCount": len(hits),
        "policyTier": selection.tier_counts[-1].tier if selection.tier_counts else None,
        "fallback": fallback,
    }
    no_vector = memories.no_vector
    if receipts.enabled:
        fts, vec = tiers.lane_summaries(receipts)
        receipt["lifecycle"] = lifecycle_receipt(
            receipts,
            scope=resolved.scope,
            scope_mode=mode,
            rejected=[*([no_vector] if no_vector else ()), *selection.rejected],
            tier_counts=selection.tier_counts,
            fts=fts,
            vec=vec,
            final=[Final(row.id, row.importance_label, row.scope) for _, row in hits],
            injected=len(hits),
            parts={"fallback": fallback},
        )
    log = fallback_markers(policy, resolved.scope, fallback, why)
    return Recalled((DARK if no_vector else "") + _view(hits), hits, receipt, tuple(log))


def _without_query(receipts: ReceiptSettings, mode: str, scope: str) -> dict[str, Any]:
    """Return the receipt's addition for a call without a query."""
    if not receipts.enabled:
        return {}
    reason = "no_query"
    return {
        "lifecycle": lifecycle_receipt(receipts, scope=scope, scope_mode=mode, skip_reason=reason, rejected=[reason])
    }


def _receipt(config: EngineConfig, limit: int, mode: str, resolved: Normalised) -> dict[str, Any]:
    """Return the receipt of every answer (E-45), without the names of the table and of the model."""
    return {
        "limit": limit,
        "ftsCount": 0,
        "vecCount": 0,
        "fusedCount": 0,
        "policyTier": None,
        "scopeMode": mode,
        "scope": resolved.scope,
        "scopeFilterApplied": True,
        "scopeValidation": {
            "validationMode": config.scope_policy.validation_mode,
            "invalid": resolved.invalid,
            "normalized": resolved.normalized,
        },
    }


def _view(hits: tuple[tuple[Picked, Row], ...]) -> str:
    if not hits:
        return "No relevant memories found."
    lines = [f"Found {len(hits)} relevant items:", "", f"Memories ({len(hits)}):"]
    lines += [
        f"{number}. [{row.category}] {_preview(row.text)} ({math.floor(100 * pick.candidate.score + 0.5)}%)"
        for number, (pick, row) in enumerate(hits, 1)
    ]
    return "\n".join(lines)


def _preview(text: str) -> str:
    return text if js_length(text) <= PREVIEW_CHARS else f"{js_slice(text, PREVIEW_CHARS)}…"
