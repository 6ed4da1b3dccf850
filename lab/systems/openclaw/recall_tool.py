"""The plugin's tool ``memory_recall`` (E-37), with which an agent searches all memories, whatever their labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lab.base.utf16 import WHITESPACE
from lab.recordings.model import IGNORE, MUST, NICE, UNKNOWN
from lab.retrieval.contract import Candidate, Filter, Row
from lab.systems.openclaw.config.settings import EngineConfig, ReceiptSettings
from lab.systems.openclaw.docs.lane import DocHit, DocsFound, docs_view, shown_doc
from lab.systems.openclaw.js import to_number
from lab.systems.openclaw.recall.receipt import Final, fallback_markers, lifecycle_receipt
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.scope import Normalised, resolve_scope, scope_plan, select_in_scopes
from lab.systems.openclaw.recall.scope import barred as barred_scopes
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.seed.exclusions import BARRED
from lab.systems.openclaw.select.outcome import Picked, Selection, TierPlan, recall_plans
from lab.systems.openclaw.select.policies import tier_first_v1
from lab.systems.openclaw.table.admin import is_working_set, numbered, preview

DEFAULT_LIMIT, MAX_LIMIT = 5, 50
# The tiers of automatic recall, and ignore, which automatic recall never searches.
PLANS = (*recall_plans(), TierPlan("ignore", (IGNORE,)))
# The tiers that seed 001 requires: must and nice as one, then unknown, then ignore.
WIDENING = (TierPlan("must+nice", (MUST, NICE)), TierPlan("unknown", (UNKNOWN,)), TierPlan("ignore", (IGNORE,)))
_BY_WORDS = "Showing lexical-only (FTS) results.\n\n"
DARK = {
    "provider_unavailable": f"⚠️ Vector recall unavailable (embeddings). {_BY_WORDS}",
    "embedding_input_too_long": f"⚠️ Vector recall skipped (embedding input too long). {_BY_WORDS}",
}


@dataclass(frozen=True, slots=True)
class Recalled:
    """The result of ``memory_recall``: text for the agent, hits with their rows, receipt, log.

    ``docs`` are citations of the operator's documents, None if there was no query; ``upstream``: they are the plugin's.
    """

    text: str
    hits: tuple[tuple[Picked, Row], ...]
    receipt: dict[str, Any]
    log: tuple[str, ...]
    docs: tuple[DocHit, ...] | None = None
    upstream: bool = True

    @property
    def details(self) -> dict[str, Any]:
        """The result in JSON: memories and documents with their scores, and the receipt."""
        memories = [_details(pick, row) | ({} if self.upstream else _parts(pick)) for pick, row in self.hits]
        details: dict[str, Any] = {"count": len(memories), "memories": memories}
        if self.docs is not None:
            details["docs"] = [shown_doc(hit, upstream=self.upstream) for hit in self.docs]
        return details | {"receipt": self.receipt}


def clamp_limit(raw: object) -> int:
    """Return a limit as a whole number from 1 to 50; 5 if it is not a number. None counts as 0, so it gives 1."""
    number = to_number(raw)
    return min(MAX_LIMIT, max(1, math.floor(number))) if math.isfinite(number) else DEFAULT_LIMIT


def memory_recall(
    query: str,
    config: EngineConfig,
    memories: Memories,
    *,
    limit: int = DEFAULT_LIMIT,
    scope: str | None = None,
    barred: Sequence[tuple[str, ...]] = ((),),
) -> Recalled:
    """Recall for an agent's query (E-37): always tier_first_v1, with ``ignore`` as the last tier.

    No prompt is trivial here and no TODO is stale. If there are too few memories, the documents lane is searched.
    Profile ``seed`` searches must and nice together, and returns no stored Working Set. ``barred`` are trust tiers to
    exclude there; a later entry applies if the earlier ones leave nothing.
    """
    text, receipts, policy = query.strip(WHITESPACE), config.receipts, config.scope_policy
    mode, resolved = resolve_scope(scope, text, policy)
    receipt = _receipt(config, limit, mode, resolved)
    if not text:
        receipt |= _without_query(receipts, mode, resolved.scope)
        return Recalled("No recall query provided.", (), receipt, (), upstream=config.upstream)
    why = barred_scopes(policy, invalid=resolved.invalid)
    scopes = scope_plan(resolved.scope, policy, allow_fallback=why is None)
    for excluded in barred:
        tiers = Tiers(memories.view, memories.rows, min(MAX_LIMIT, 2 * limit), memories.shared)
        choose = partial(_choose, tiers, config.upstream, excluded)
        selection, fallback = select_in_scopes(scopes, limit, choose, policy, why)
        if selection.picked:
            break
    hits = tuple((pick, memories.by_id[pick.candidate.id]) for pick in selection.picked[:limit])
    receipt |= {
        "ftsCount": sum(len(result.lanes.fts) for result in tiers.results),
        "vecCount": sum(len(result.lanes.vec) for result in tiers.results),
        "fusedCount": len(hits),
        "policyTier": _policy_tier(selection, upstream=config.upstream),
        "fallback": fallback,
    }
    no_vector = memories.no_vector
    parts: dict[str, Any] = {"fallback": fallback}
    docs = _documents(memories, text, resolved.scope, limit, len(hits))
    if docs is not None:
        receipt["coldLane"] = parts["coldLane"] = docs.receipt
    citations = docs.hits if docs else ()
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
            injected=len(hits) + len(citations),
            parts=parts,
        )
    log = fallback_markers(policy, resolved.scope, fallback, why)
    if docs is not None:
        log.append(docs.mark())
    text = (DARK[no_vector] if no_vector else "") + _view(hits, citations)
    return Recalled(text, hits, receipt, tuple(log), citations, config.upstream)


def agent_recall(
    query: str, config: EngineConfig, memories: Memories, *, limit: int = DEFAULT_LIMIT, scope: str | None = None
) -> Recalled:
    """Recall memories for an agent's query. Profile ``seed`` prefers trusted ones (E-60); the plugin ignores trust."""
    barred = ((),) if config.upstream else BARRED[config.active_phases.trust]
    return memory_recall(query, config, memories, limit=limit, scope=scope, barred=barred)


def _documents(memories: Memories, query: str, scope: str, limit: int, hot: int) -> DocsFound | None:
    """Search the documents if there are too few memories; None if they are not searched."""
    lane = memories.docs
    if lane is None or not lane.needed(hot):
        return None
    return lane.consult(query, scope, max(1, limit - hot), trigger="insufficient_hot")


def _choose(tiers: Tiers, upstream: bool, excluded: Sequence[str], scope: str | None, slots: int) -> Selection:
    """Select in one scope; profile ``seed`` excludes trust tiers and stored Working Sets inside the search (E-66)."""
    if upstream:
        return tier_first_v1(PLANS, slots, lambda plan: tiers.fused(plan, scope))

    def search(plan: TierPlan) -> Sequence[Candidate]:
        where = Filter(scope, plan.labels)
        result = tiers.admitted(where, lambda row: row.trust_tier in excluded or is_working_set(row.id))
        tiers.record(where, result)
        return result.fused

    return tier_first_v1(WIDENING, slots, search)


def _policy_tier(selection: Selection, *, upstream: bool) -> str | None:
    """Return the last tier that was searched; in profile ``seed``, the tiers up to the widest that was used."""
    if upstream:
        return selection.tier_counts[-1].tier if selection.tier_counts else None
    used = {pick.tier for pick in selection.picked}
    widest = max((at for at, plan in enumerate(WIDENING) if plan.tier in used), default=None)
    return None if widest is None else "+".join(plan.tier for plan in WIDENING[: widest + 1])


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


def _view(hits: tuple[tuple[Picked, Row], ...], docs: tuple[DocHit, ...]) -> str:
    if not hits and not docs:
        return "No relevant memories found."
    parts = [f"Found {len(hits) + len(docs)} relevant items:"]
    if hits:
        lines = [
            f"[{row.category}] {preview(row.text)} ({math.floor(100 * pick.candidate.score + 0.5)}%)"
            for pick, row in hits
        ]
        parts.append(f"Memories ({len(hits)}):\n{numbered(lines)}")
    if docs:
        parts.append(f"Docs cold lane ({len(docs)}):\n{docs_view(docs, '|operator')}")
    return "\n\n".join(parts)


def _parts(pick: Picked) -> dict[str, Any]:
    """Return the parts of a score, and the tier that the memory passed in (seed 001: lightweight explanations)."""
    return {"ftsRank": pick.candidate.fts_rank, "vecRank": pick.candidate.vec_rank, "tier": pick.tier}


def _details(pick: Picked, row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "text": row.text,
        "category": row.category,
        "importance": row.importance,
        "importance_label": row.importance_label,
        "scope": row.scope,
        "trust_tier": row.trust_tier,
        "createdAt": row.created_at,
        "distance": pick.candidate.distance,
        "score": pick.candidate.score,
    }
