"""Receipts of a recall (E-40), which hold ids and scores and never text, and its other log lines (E-18, E-44).

:func:`lifecycle_receipt` returns ``openclaw-mem-engine.recall.receipt.v1``, :func:`prompt_comment` its short form
inside the prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any, NamedTuple

from lab.base.utf16 import WHITESPACE
from lab.recordings.model import GLOBAL
from lab.retrieval.collation import id_order
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.js import Json, js_json, round6, whole_count
from lab.systems.openclaw.memory import normal_label
from lab.systems.openclaw.recall.scope import ScopePolicy
from lab.systems.openclaw.select.outcome import Quota, TierCount

SCHEMA = "openclaw-mem-engine.recall.receipt.v1"
MAX_LISTED, MAX_TIERS, MAX_LABELS = 10, 6, 4
REASONS = (
    "trivial_prompt",
    "no_query",
    "embedding_input_too_long",
    "no_results_must",
    "no_results_nice",
    "all_excluded",
    "provider_unavailable",
    "budget_cap",
    # Only with lab.silence, which the plugin does not have.
    "low_relevance",
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
    """A receipt's summary of one lane over all searches of a recall: the ids that it returned, and its best hits."""

    ids: Set[str]
    top: list[LaneHit]


class Final(NamedTuple):
    """A row of the final list. Label and scope are as stored, None or blank if there is none."""

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
    explain_all: bool = False,
) -> dict[str, Any]:
    """Return the receipt with its keys in the plugin's order.

    ``explain_all``: list every final row, up to the plugin's limit of ten, and not only ``receipts.maxItems`` of them.
    ``fts`` and ``vec`` are all raw hits of the recall, or their summaries. ``parts`` are receipts of other stages by
    key; they come last.
    """
    listed = most_listed(settings)
    fts, vec = (lane if isinstance(lane, Lane) else lane_of(lane, listed) for lane in (fts, vec))
    reasons = set(rejected)
    receipt: dict[str, Any] = {
        "schema": SCHEMA,
        "verbosity": settings.verbosity,
        "skipped": skip_reason is not None,
        "skipReason": skip_reason,
        "rejected": [reason for reason in REASONS if reason in reasons],
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
    explained = MAX_LISTED if explain_all else listed
    receipt["fusedTop"] = [row.id for row in final[:explained]]
    receipt |= _why(final, scope, fts, vec, explained)
    return receipt | {"finalCount": len(final), "injectedCount": whole_count(injected)} | dict(parts or {})


def _searched(counts: Sequence[TierCount], fts: Lane, vec: Lane, *, labels: bool) -> dict[str, Any]:
    """Return the searches by tier and the best hits of each lane. ``labels``: list the labels of each tier."""
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
        "ftsTop": [{"id": hit.id, "score": hit.score} for hit in fts.top],
        "vecTop": [{"id": hit.id, "score": hit.score, "distance": hit.distance} for hit in vec.top],
    }


def _why(final: Sequence[Final], scope: str, fts: Lane, vec: Lane, listed: int) -> dict[str, Any]:
    """Return which tier, scope and lanes the final rows come from. Rows without an id are left out."""
    named = [row for row in final if row.id]
    scopes = [(row.scope or "").strip(WHITESPACE) or GLOBAL for row in named]
    tiers = [why_tier(row.label) for row in named]
    primary = scopes.count(scope)
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
                "scope": row_scope,
                "origin": "primary" if row_scope == scope else "fallback",
                "signals": [lane for lane, ids in (("fts", fts.ids), ("vec", vec.ids)) if row.id in ids],
            }
            for row, row_scope, tier in list(zip(named, scopes, tiers, strict=True))[:listed]
        ],
    }


def prompt_comment(settings: ReceiptSettings, receipt: Mapping[str, Any]) -> str:
    """Return the comment that precedes the block (E-42); empty unless receipts are on with high verbosity."""
    if not settings.enabled or settings.verbosity != "high":
        return ""
    value = {name: receipt[name] for name in _IN_COMMENT if name in receipt}
    value |= {"whySummary": receipt["whySummary"], "whyTheseIds": receipt["whyTheseIds"]}
    # The former name of the same facts, which older readers still expect.
    value["why"] = receipt["whySummary"] | {"ids": receipt["whyTheseIds"]}
    value["injectedCount"] = receipt["injectedCount"]
    for name, keys in (("fallback", _FALLBACK), ("coldLane", _COLD_LANE), ("workingSet", _WORKING_SET)):
        if receipt.get(name) is not None:
            value[name] = {key: receipt[name][key] for key in keys if key in receipt[name]}
    return f"<!-- openclaw-mem-engine:autoRecall {js_json(value)} -->"


def most_listed(settings: ReceiptSettings) -> int:
    """Return the maximum length of the lists in a receipt."""
    return max(1, min(int(settings.max_items), MAX_LISTED))


@lru_cache(maxsize=1024)
def why_tier(label: str | None) -> str:
    """Return the tier of a stored label; unknown if the label is not recognised."""
    return TIERS.get(normal_label(label) or "", "unknown") if label != "unknown" else "unknown"


def lane_of(hits: Sequence[LaneHit], listed: int) -> Lane:
    """Summarise the hits of a lane for a receipt that lists the best ``listed`` of them."""
    return Lane({hit.id for hit in hits}, best_listed(hits, listed))


def best_listed(hits: Iterable[tuple[str, float, float]], count: int) -> list[LaneHit]:
    """Return the best hits over all raw results of a lane: the best score of each id, descending, then by id."""
    best: dict[str, tuple[float, float]] = {}
    for identity, score, distance in hits:
        # Round first: scores that are equal in the receipt are sorted by id.
        score = round6(score)
        if identity and (identity not in best or score > best[identity][0]):
            best[identity] = (score, distance)
    ordered = sorted((-score, id_order(identity), identity) for identity, (score, _) in best.items())[:count]
    return [LaneHit(identity, -negative, round6(best[identity][1])) for negative, _, identity in ordered]


NAME = "openclaw-mem-engine"


def marker(name: str, value: Mapping[str, Json]) -> str:
    """Return one line of the log."""
    return f"{NAME}:{name} {js_json(value)}"


def fallback_markers(policy: ScopePolicy, scope: str, fallback: Mapping[str, Json], barred: str | None) -> list[str]:
    """Return the log lines of a fallback: why it was suppressed (``barred``), or the scopes it consulted (E-21)."""
    if not policy.fallback_marker:
        return []
    marks = []
    if barred is not None:
        value = {"scope": scope, "reason": barred, "validationMode": policy.validation_mode}
        marks.append(marker("scopeFallbackSuppressed", value))
    if fallback["consulted"]:
        kept = {name: fallback[name] for name in ("consultedScopes", "usedScopes", "contributed")}
        marks.append(marker("scopeFallback", {"scope": scope, **kept}))
    return marks
