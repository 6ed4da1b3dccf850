"""Receipts of a recall (E-40): ids and scores, never text.

:func:`lifecycle_receipt` is ``openclaw-mem-engine.recall.receipt.v1``; :func:`prompt_comment` its short form inside the
prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.memory import normal_label
from lab.systems.openclaw.select.outcome import Quota, TierCount
from lab.systems.openclaw.upstream.js import js_json, round6, whole_count
from lab.utf16 import WHITESPACE

SCHEMA = "openclaw-mem-engine.recall.receipt.v1"
MAX_LISTED, MAX_TIERS, MAX_LABELS = 10, 6, 4
REASONS = (
    "trivial_prompt",
    "no_query",
    "embedding_input_too_long",
    "no_results_must",
    "no_results_nice",
    "provider_unavailable",
    "budget_cap",
)
TIERS = {"must_remember": "must", "nice_to_have": "nice", "ignore": "ignore"}
_IN_COMMENT = ("schema", "verbosity", "skipped", "skipReason", "selectionMode", "quota", "tiersSearched", "fusedTop")
_FALLBACK = ("eligible", "consulted", "consultedScopes", "usedScopes", "contributed", "suppressedReason")
_COLD_LANE = ("consulted", "returned", "strategy")
_WORKING_SET = (
    "enabled",
    "generated",
    "id",
    "chars",
    "sections",
    "consumedCount",
    "suppressedRecallCount",
    "persisted",
)


class LaneHit(NamedTuple):
    """A raw hit of one lane."""

    id: str
    score: float
    distance: float


class Lane(NamedTuple):
    """What a receipt says of one lane over a whole run: the ids that it returned, and its best hits."""

    ids: Set[str]
    top: list[LaneHit]


class Final(NamedTuple):
    """A row of the final list. Label and scope are as stored; None or blank where there is none."""

    id: str
    label: str | None
    scope: str | None


def lifecycle_receipt(
    settings: ReceiptSettings,
    *,
    scope: str,
    scope_mode: str,
    skip_reason: str | None = None,
    rejected: Iterable[str] = (),
    mode: str | None = None,
    quota: Quota | None = None,
    tier_counts: Sequence[TierCount] = (),
    fts: Sequence[LaneHit] | Lane = (),
    vec: Sequence[LaneHit] | Lane = (),
    final: Sequence[Final] = (),
    injected: float = 0,
    parts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The receipt, keys in the plugin's order.

    ``fts`` and ``vec`` are all raw hits of the run, or what a receipt says of them. ``parts`` are the receipts of other
    stages, by their key; they come last.
    """
    listed = most_listed(settings)
    fts, vec = (one if isinstance(one, Lane) else lane_of(one, listed) for one in (fts, vec))
    found = set(rejected)
    receipt: dict[str, Any] = {
        "schema": SCHEMA,
        "verbosity": settings.verbosity,
        "skipped": skip_reason is not None,
        "skipReason": skip_reason,
        "rejected": [reason for reason in REASONS if reason in found],
        "scope": scope,
        "scopeMode": scope_mode,
    }
    if mode is not None:
        receipt["selectionMode"] = mode
    if quota is not None:
        receipt["quota"] = {
            "mustMax": quota.must_max,
            "niceMin": quota.nice_min,
            "unknownMax": quota.unknown_max,
            "wildcardUsed": quota.wildcard_used,
        }
    receipt |= _searched(tier_counts, fts, vec, labels=settings.verbosity == "high")
    receipt["fusedTop"] = [row.id for row in final[:listed]]
    receipt |= _why(final, scope, fts, vec, listed)
    return receipt | {"finalCount": len(final), "injectedCount": whole_count(injected)} | dict(parts or {})


def _searched(counts: Sequence[TierCount], fts: Lane, vec: Lane, *, labels: bool) -> dict[str, Any]:
    """What was searched, tier by tier, and the best hits of each lane; ``labels``: the tiers are told with theirs."""
    shown = counts[:MAX_TIERS]
    return {
        "tiersSearched": [count.tier for count in shown],
        "tierCounts": [
            {
                "tier": count.tier,
                "labels": list(count.labels[:MAX_LABELS]) if labels else [],
                "candidates": whole_count(count.candidates),
                "selected": whole_count(count.selected),
            }
            for count in shown
        ],
        "ftsTop": [{"id": one.id, "score": one.score} for one in fts.top],
        "vecTop": [{"id": one.id, "score": one.score, "distance": one.distance} for one in vec.top],
    }


def _why(final: Sequence[Final], scope: str, fts: Lane, vec: Lane, listed: int) -> dict[str, Any]:
    """Which tier, scope and lanes the final rows come from. A row without an id cannot be explained."""
    named = [row for row in final if row.id]
    homes = [(row.scope or "").strip(WHITESPACE) or GLOBAL for row in named]
    tiers = [why_tier(row.label) for row in named]
    primary = homes.count(scope)
    return {
        "whySummary": {
            "byTier": {tier: tiers.count(tier) for tier in ("must", "nice", "unknown", "ignore")},
            "fromPrimaryScope": primary,
            "fromFallbackScope": len(named) - primary,
        },
        "whyTheseIds": [
            {
                "id": row.id,
                "tier": tier,
                "scope": home,
                "origin": "primary" if home == scope else "fallback",
                "signals": [lane for lane, ids in (("fts", fts.ids), ("vec", vec.ids)) if row.id in ids],
            }
            for row, home, tier in list(zip(named, homes, tiers, strict=True))[:listed]
        ],
    }


def prompt_comment(settings: ReceiptSettings, receipt: Mapping[str, Any]) -> str:
    """The comment that precedes the block (E-42): only where receipts are on and say much."""
    if not settings.enabled or settings.verbosity != "high":
        return ""
    value = {name: receipt[name] for name in _IN_COMMENT if name in receipt}
    value |= {"whySummary": receipt["whySummary"], "whyTheseIds": receipt["whyTheseIds"]}
    # The old name of the same facts, which readers of earlier comments still look for.
    value["why"] = receipt["whySummary"] | {"ids": receipt["whyTheseIds"]}
    value["injectedCount"] = receipt["injectedCount"]
    for name, keys in (("fallback", _FALLBACK), ("coldLane", _COLD_LANE), ("workingSet", _WORKING_SET)):
        if receipt.get(name) is not None:
            value[name] = {key: receipt[name][key] for key in keys if key in receipt[name]}
    return f"<!-- openclaw-mem-engine:autoRecall {js_json(value)} -->"


def most_listed(settings: ReceiptSettings) -> int:
    """Items that a list of a receipt may hold."""
    return max(1, min(int(settings.max_items), MAX_LISTED))


@lru_cache(maxsize=1024)
def why_tier(label: str | None) -> str:
    """The tier that a stored label stands for; one that is not recognised is unknown."""
    return TIERS.get(normal_label(label) or "", "unknown") if label != "unknown" else "unknown"


def lane_of(hits: Sequence[LaneHit], listed: int) -> Lane:
    """What a receipt that lists so many hits says of these."""
    return Lane({one.id for one in hits}, best_listed(hits, listed))


def best_listed(hits: Iterable[tuple[str, float, float]], count: int) -> list[LaneHit]:
    """The best hits over all raw results of a lane: per id its best score, score descending, then id."""
    best: dict[str, tuple[float, float]] = {}
    for identity, score, distance in hits:
        # Rounded first: scores that look alike in the receipt stand in the order of their ids.
        score = round6(score)
        if identity and (identity not in best or score > best[identity][0]):
            best[identity] = (score, distance)
    ordered = sorted((-score, id_order(identity), identity) for identity, (score, _) in best.items())[:count]
    return [LaneHit(identity, -negative, round6(best[identity][1])) for negative, _, identity in ordered]
