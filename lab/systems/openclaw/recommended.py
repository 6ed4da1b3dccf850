"""The configuration that the lab's own sweeps lead to: as good as search without tiers, and it repeats itself less.

What it was held against, and what it was found to keep, stands in docs/settings.md.
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
        # One nice memory is sure of a place; all others are won by relevance, whatever the label.
        "quotas": {"mustMax": 0, "niceMin": 1, "unknownMax": 0, "caps": "reservation"},
        "repeatPenalty": 0.2,
        "repeatWindowTurns": 6,
    },
    # Hard rules stand in the digest, and the digest takes no place from a memory.
    "workingSet": {"enabled": True},
    "budget": {"maxChars": 12_000},
    "lab": {
        "phases": {
            # The best of a weak tier must not count as much as the best of a strong one.
            "relevanceOver": "pool",
            # On the scale of rank fusion a penalty is a ban; on this one it is a knob.
            "relevance": "similarity",
            "score": {"scopeMatch": False, "recency": False, "importancePrior": False, "relevance": True},
            "hardRules": True,
            "pinnedCounts": "extra",
        }
    },
}


def recommended(own: Mapping[str, Any] | None) -> dict[str, Any]:
    """The recommended configuration; where an operator's says something else, that holds."""
    return deep_merge(CONFIG, only_here(own or {}))
