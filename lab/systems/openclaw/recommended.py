"""The configuration recommended by the lab's sweeps: as good as search without tiers, with a lower repeat rate.

docs/settings.md has the comparisons and results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.shape import deep_merge
from lab.systems.openclaw.config.missing import only_here

ARM = "recommended"
CONFIG: dict[str, Any] = {
    "autoRecall": {
        "selectionMode": "tier_quota_v1",
        # One slot is reserved for a nice memory; relevance decides the others, whatever the label.
        "quotas": {"mustMax": 0, "niceMin": 1, "unknownMax": 0, "caps": "reservation"},
        "repeatPenalty": 0.2,
        "repeatWindowTurns": 6,
    },
    # Hard rules go into the Working Set, which takes no slot from a memory.
    "workingSet": {"enabled": True},
    "budget": {"maxChars": 12_000},
    "lab": {
        "phases": {
            # The best of a weak tier must not count as much as that of a strong one.
            "relevanceOver": "pool",
            # With rank fusion any repeat penalty excludes a memory; with similarity it has a gradual effect.
            "relevance": "similarity",
            "score": {
                "scopeMatch": False,
                "recency": False,
                "importancePrior": False,
                "novelty": False,
                "relevance": True,
            },
            # The sweeps counted repeats within a session.
            "repeatHistory": "session",
            "hardRules": True,
            "pinnedCounts": "extra",
        }
    },
}


def recommended(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the recommended configuration, overridden by the operator's ``config``."""
    return deep_merge(CONFIG, only_here(config or {}))
