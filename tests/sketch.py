"""The configuration that the design documents sketch (seed 000), as YAML and as the values of its JSON."""

from __future__ import annotations

from typing import Any

YAML = """
autoRecall:
  selectionMode: tier_quota_v1
  maxItems: 6
  quotas: {mustMax: 2, niceMin: 2, unknownMax: 1}
  repeatWindowTurns: 6
  repeatPenalty: 0.35   # a ranking penalty
  dedupeBackbone: true

workingSet:
  enabled: true
  persist: true
"""
SKETCH: dict[str, Any] = {
    "autoRecall": {
        "selectionMode": "tier_quota_v1",
        "maxItems": 6,
        "quotas": {"mustMax": 2, "niceMin": 2, "unknownMax": 1},
        "repeatWindowTurns": 6,
        "repeatPenalty": 0.35,
        "dedupeBackbone": True,
    },
    "workingSet": {"enabled": True, "persist": True},
}
