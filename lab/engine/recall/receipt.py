"""The core of the recall receipt ``openclaw-mem-engine.recall.receipt.v1`` (spec 12.1): ids and scores, no text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lab.engine.js import round6
from lab.engine.memory import Row
from lab.engine.recall.select.outcome import Picked, Quota, TierCount
from lab.engine.store.contract import Hit, Lanes

SCHEMA = "openclaw-mem-engine.recall.receipt.v1"
# Items a list may hold: the plugin's default of receipts.maxItems.
MAX_LISTED = 3
REASONS = (
    "trivial_prompt",
    "no_query",
    "embedding_input_too_long",
    "no_results_must",
    "no_results_nice",
    "provider_unavailable",
    "budget_cap",
)
_TIERS = {"must_remember": "must", "nice_to_have": "nice", "ignore": "ignore"}


def recall_receipt(
    *,
    mode: str,
    scope: str,
    quota: Quota | None,
    tier_counts: Sequence[TierCount],
    lanes: Sequence[Lanes],
    picked: Sequence[Picked],
    rows: Mapping[str, Row],
    store_rows: Sequence[Row],
    rejected: Iterable[str],
    injected: int,
) -> dict[str, Any]:
    """The receipt of one recall, keys in the plugin's order. ``rows`` maps the picked ids to their rows."""
    found = set(rejected)
    receipt: dict[str, Any] = {
        "schema": SCHEMA,
        "verbosity": "low",
        "skipped": False,
        "skipReason": None,
        "rejected": [reason for reason in REASONS if reason in found],
        "scope": scope,
        "scopeMode": "global" if scope == "global" else "inferred",
        "selectionMode": mode,
    }
    if quota is not None:
        receipt["quota"] = {
            "mustMax": quota.must_max,
            "niceMin": quota.nice_min,
            "unknownMax": quota.unknown_max,
            "wildcardUsed": quota.wildcard_used,
        }
    final = [rows[one.candidate.id] for one in picked]
    by_tier = dict.fromkeys(("must", "nice", "unknown", "ignore"), 0)
    for row in final:
        by_tier[_TIERS.get(row.importance_label, "unknown")] += 1
    receipt |= {
        "tiersSearched": [count.tier for count in tier_counts],
        "tierCounts": [
            {"tier": count.tier, "labels": [], "candidates": count.candidates, "selected": count.selected}
            for count in tier_counts[:6]
        ],
        "ftsTop": [{"id": row, "score": score} for row, score, _ in _top((one.fts for one in lanes), store_rows)],
        "vecTop": [
            {"id": row, "score": score, "distance": distance}
            for row, score, distance in _top((one.vec for one in lanes), store_rows)
        ],
        "fusedTop": [row.id for row in final[:MAX_LISTED]],
        "whySummary": {"byTier": by_tier, "fromPrimaryScope": len(final), "fromFallbackScope": 0},
        "whyTheseIds": [
            {
                "id": row.id,
                "tier": _TIERS.get(row.importance_label, "unknown"),
                "scope": row.scope,
                "origin": "primary",
                "signals": _signals(one),
            }
            for row, one in list(zip(final, picked, strict=True))[:MAX_LISTED]
        ],
        "finalCount": len(final),
        "injectedCount": injected,
    }
    return receipt


def _signals(one: Picked) -> list[str]:
    ranks = (("fts", one.candidate.fts_rank), ("vec", one.candidate.vec_rank))
    return [lane for lane, rank in ranks if rank is not None]


def _top(lists: Iterable[Sequence[Hit]], rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """The best hits over all raw results of a lane: per id its best score, score descending, id ascending.

    Each list is ordered already, so its first few hold all that can be among the first few of the whole.
    """
    leaders = [(-hit.score, rows[hit.row].id, hit.distance) for hits in lists for hit in hits[:MAX_LISTED]]
    leaders.sort()
    found: dict[str, tuple[str, float, float]] = {}
    for negative, identity, distance in leaders:
        if len(found) == MAX_LISTED:
            break
        if identity not in found:
            found[identity] = (identity, round6(-negative), round6(distance))
    return list(found.values())
