"""The configuration recommended by the lab's search: more hits than untiered search, with fewer repeats.

``tests/trials/recommended.py`` finds it; docs/settings.md has its cross-validated estimates and its measured results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.base.shape import deep_merge
from lab.systems.openclaw.config.values import only_here

ARM = "recommended"
CONFIG: dict[str, Any] = {
    "autoRecall": {
        "selectionMode": "tier_quota_v1",
        # Deep enough to replace memories that the repeat penalty moves down.
        "tierSearchMultiplier": 4,
        # No slot is reserved: relevance decides, whatever the label.
        "quotas": {"mustMax": 0, "niceMin": 0, "unknownMax": 0, "wildcard": "best"},
        "repeatPenalty": 0.8,
        "repeatWindowTurns": 6,
    },
    # Hard rules go into the Working Set, which takes no slot from a memory.
    "workingSet": {"enabled": True},
    # The least relevant item is dropped first, however new it is.
    "budget": {"maxChars": 12_000, "minRecentSlots": 0, "overflowAction": "truncate_tail"},
    "lab": {
        # With reciprocal ranks and k = 60, one lane's clear best loses to two mediocre ranks.
        "fusion": {"method": "isr"},
        # Only where nothing is similar at all: a higher threshold depends on the embedder and the memories.
        "silence": {"signal": "mean", "threshold": 0.02},
        "phases": {
            # The best of a weak tier must not count as much as that of a strong one.
            "relevanceOver": "pool",
            "relevance": "fused",
            "score": {
                "relevance": True,
                "novelty": True,
                "scopeMatch": False,
                "recency": False,
                "importancePrior": False,
            },
            # Scores fall with the square of the rank: the best of both lanes stay after this penalty, others do not.
            "repeatDecay": "once",
            "repeatHistory": "conversation",
            "hardRules": True,
            "pinnedCounts": "extra",
            # Six memories of this length fit into the budget.
            "itemMaxChars": 1_900,
        },
    },
}


def recommended(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the recommended configuration, overridden by the operator's ``config``."""
    return deep_merge(CONFIG, only_here(config or {}))
