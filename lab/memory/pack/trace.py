"""The trace of a pack: every candidate with its reasons, and no text of a memory (seed 003, PK-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lab.memory.pack.layers import L2, Decision
from lab.memory.pack.packer import Pack

TRACE = "openclaw-mem.pack.trace.v1"
# Part of the sidecar's format: a cap on nice_to_have items that no pack reaches.
NICE_CAP = 100


def trace(
    pack: Pack,
    ts: str,
    *,
    version: str,
    refreshed: Sequence[str] = (),
    timing: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Return the trace of a pack. It has the query and refs, and no other text.

    ``refreshed`` are the records whose use was recorded, ``timing`` the milliseconds of each stage.
    """
    settings = pack.settings
    candidates = [candidate(decision) for decision in pack.decisions]
    included = [one for one in candidates if one["decision"]["included"]]
    stages = dict(timing or {})
    total = sum(stages.values())
    no_rationale = sum(not one["decision"]["rationale"] for one in candidates)
    no_citation = sum(not one["citations"]["recordRef"] for one in included)
    return {
        "kind": TRACE,
        "ts": ts,
        "version": {"openclaw_mem": version, "schema": "v1"},
        "query": {"text": pack.query, "scope": pack.scope, "intent": None},
        "budgets": {
            "budgetTokens": settings.budget_tokens,
            "maxItems": settings.limit,
            "maxL2Items": settings.most_details,
            "niceCap": NICE_CAP,
        },
        "lanes": [
            {
                "name": found.lane,
                "source": found.lane,
                "searched": found.searched,
                "reason": found.reason,
                "candidates": len(found.candidates),
                "retrievers": [
                    {"kind": kind, "topK": settings.depth, "k": None}
                    for kind in dict.fromkeys(name for one in found.candidates for name in one.retrievers)
                ],
            }
            for found in pack.founds
        ],
        "candidates": candidates,
        "output": {
            "includedCount": len(included),
            "excludedCount": len(candidates) - len(included),
            "l2IncludedCount": sum(one["layer"] == L2 for one in included),
            "citationsCount": len(included) - no_citation,
            "refreshedRecordRefs": list(refreshed),
            "coverage": {
                "rationaleMissingCount": no_rationale,
                "citationMissingCount": no_citation,
                "allIncludedHaveRationale": all(one["decision"]["rationale"] for one in included),
                "allIncludedHaveCitations": no_citation == 0,
            },
        },
        "timing": {"durationMs": int(total), "stages": stages, "total_ms": total},
        "extensions": extensions(pack),
    }


def candidate(decision: Decision) -> dict[str, Any]:
    """Return the decision on a candidate, as the trace lists it."""
    one = decision.candidate
    reasons = list(decision.reasons)
    return {
        "id": one.ref,
        "layer": decision.layer,
        "importance": one.importance,
        "trust": one.trust,
        "scores": {
            "rrf": one.score,
            "fts": float("fts" in one.retrievers),
            "semantic": float("vector" in one.retrievers),
        },
        "decision": {
            "included": decision.included,
            "reason": reasons,
            "rationale": list(reasons),
            "caps": {"niceCapHit": False, "l2CapHit": decision.l2_cap},
        },
        "citations": {"url": one.url, "recordRef": one.ref},
    }


def extensions(pack: Pack) -> dict[str, Any]:
    """Return the values that the sidecar's format has no field for: why a pack fell short, quotas, the dissent slot."""
    said: dict[str, Any] = {}
    if pack.reasons:
        said["reasons"] = list(pack.reasons)
    if pack.quota_hits:
        said["quota_hits"] = list(pack.quota_hits)
    if pack.dissent is not None:
        dissent = pack.dissent
        said["dissent"] = {"ref": dissent.candidate.ref, "against": dissent.against, "how": dissent.how}
    return said
