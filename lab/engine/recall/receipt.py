"""Receipts of a recall (spec 12): ids and scores, never text.

:func:`lifecycle_receipt` is ``openclaw-mem-engine.recall.receipt.v1``; :func:`prompt_comment` its short form inside the
prompt.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.engine.collation import id_order
from lab.engine.js import WHITESPACE, round6, whole_count
from lab.engine.memory import normal_label
from lab.engine.recall.select.outcome import Quota, TierCount
from lab.engine.settings import ReceiptSettings

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


class Found(NamedTuple):
    """A raw hit of one lane."""

    id: str
    score: float
    distance: float


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
    fts: Sequence[Found] = (),
    vec: Sequence[Found] = (),
    final: Sequence[Final] = (),
    injected: float = 0,
    parts: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The receipt, keys in the plugin's order.

    ``fts`` and ``vec`` are all raw hits of the run. ``parts`` are the receipts of other stages, by their key; they come
    last.
    """
    listed = most_listed(settings)
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
    shown = tier_counts[:MAX_TIERS]
    high = settings.verbosity == "high"
    # A row without an id cannot be explained.
    named = [row for row in final if row.id]
    scopes = [(row.scope or "").strip(WHITESPACE) or "global" for row in named]
    by_tier = dict.fromkeys(("must", "nice", "unknown", "ignore"), 0)
    for row in named:
        by_tier[why_tier(row.label)] += 1
    primary = sum(one == scope for one in scopes)
    lanes = (("fts", {one.id for one in fts}), ("vec", {one.id for one in vec}))
    receipt |= {
        "tiersSearched": [count.tier for count in shown],
        "tierCounts": [
            {
                "tier": count.tier,
                "labels": list(count.labels[:MAX_LABELS]) if high else [],
                "candidates": whole_count(count.candidates),
                "selected": whole_count(count.selected),
            }
            for count in shown
        ],
        "ftsTop": [{"id": one.id, "score": one.score} for one in _top(fts, listed)],
        "vecTop": [one._asdict() for one in _top(vec, listed)],
        "fusedTop": [row.id for row in final[:listed]],
        "whySummary": {
            "byTier": by_tier,
            "fromPrimaryScope": primary,
            "fromFallbackScope": len(named) - primary,
        },
        "whyTheseIds": [
            {
                "id": row.id,
                "tier": why_tier(row.label),
                "scope": home,
                "origin": "primary" if home == scope else "fallback",
                "signals": [lane for lane, ids in lanes if row.id in ids],
            }
            for row, home in list(zip(named, scopes, strict=True))[:listed]
        ],
        "finalCount": len(final),
        "injectedCount": whole_count(injected),
    }
    return receipt | dict(parts or {})


def prompt_comment(settings: ReceiptSettings, receipt: Mapping[str, Any]) -> str:
    """The comment that precedes the block (spec 12.3): only where receipts are on and say much."""
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
    return f"<!-- openclaw-mem-engine:autoRecall {compact_json(value)} -->"


def closed_comment(comment: str) -> str:
    """A prompt comment that nothing in it can end.

    The public plugin's can be: a scope or an id may hold ``-->``. As escapes of JSON the brackets read the same.
    """
    if not comment:
        return ""
    inner = comment[len("<!--") : -len("-->")]
    return f"<!--{inner.replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')}-->"


def compact_json(value: Any) -> str:
    """JSON as the plugin writes it: no spaces, nothing escaped that need not be."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def most_listed(settings: ReceiptSettings) -> int:
    """Items that a list of a receipt may hold."""
    return max(1, min(int(settings.max_items), MAX_LISTED))


def why_tier(label: str | None) -> str:
    """The tier that a stored label stands for; one that is not recognised is unknown."""
    return TIERS.get(normal_label(label) or "", "unknown") if label != "unknown" else "unknown"


def _number(value: float) -> float:
    return round6(value) if math.isfinite(value) else 0


def _top(hits: Sequence[Found], count: int) -> list[Found]:
    """The best hits over all raw results of a lane: per id its best score, score descending, then id."""
    best: dict[str, tuple[float, float]] = {}
    for identity, score, distance in _contenders(hits, count):
        # Rounded first: scores that look alike in the receipt stand in the order of their ids.
        score = _number(score)
        if identity and (identity not in best or score > best[identity][0]):
            best[identity] = (score, distance)
    ordered = sorted((-score, id_order(identity), identity) for identity, (score, _) in best.items())[:count]
    return [Found(identity, -negative, _number(best[identity][1])) for negative, _, identity in ordered]


def _contenders(hits: Sequence[Found], count: int) -> Sequence[Found]:
    """The hits that can be among the best ``count``.

    Rounding moves a score by half a millionth at most, and it is what costs: so a hit that is clearly worse than
    ``count`` others is spared it. All hits are returned where an id comes twice, or a score is no number.
    """
    if len(hits) <= count or len({hit[0] for hit in hits}) < len(hits):
        return hits
    scores = [hit[1] for hit in hits]
    if not math.isfinite(sum(scores)):
        return hits
    floor = sorted(scores, reverse=True)[count - 1] - 2e-6
    # One without an id is not listed, so it may not keep out another.
    return [hit for hit in hits if hit[1] >= floor] if all(hit[0] for hit in hits) else hits
