"""Configurations with a name: the steps of the ablation, and the one that the lab recommends.

The ablation leads from the old policy to the full engine of the seeds; each step adds one feature to the one before.
``recommended`` has fewer harms and repeats than untiered search, and nearly as many hits: it is chosen by
``tests/trials/recommended.py``, and docs/switching.md says what it brings, what it costs, and on whose data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from lab.base.shape import deep_merge
from lab.systems.openclaw.config.settings import EngineConfig, Phases
from lab.systems.openclaw.config.values import only_here


class AblationStep(NamedTuple):
    """A step: its arm, what it adds, and the function that derives its configuration from the operator's."""

    arm: str
    adds: str
    config: Callable[[EngineConfig], EngineConfig]


def _flow(config: EngineConfig) -> EngineConfig:
    recall = replace(config.auto_recall, selection_mode="tier_quota_v1")
    phases = replace(
        config.phases, repeat=False, score=(), hard_rules=False, trust="off", recent_days=0, tier_mode="live"
    )
    return replace(config, auto_recall=recall, phases=phases, working_set=replace(config.working_set, enabled=False))


def _repeat(config: EngineConfig) -> EngineConfig:
    previous = _flow(config)
    return replace(previous, phases=replace(previous.phases, repeat=True))


def _working_set(config: EngineConfig) -> EngineConfig:
    return replace(_repeat(config), working_set=replace(config.working_set, enabled=True))


def _score(config: EngineConfig) -> EngineConfig:
    previous = _working_set(config)
    return replace(previous, phases=replace(previous.phases, score=config.phases.score or Phases().score))


def _full(config: EngineConfig) -> EngineConfig:
    previous, phases = _score(config), config.phases
    full = replace(
        previous.phases,
        hard_rules=True,
        trust=phases.trust,
        recent_days=phases.recent_days,
        tier_mode=phases.tier_mode,
    )
    return replace(previous, phases=full)


ABLATION = (
    AblationStep("tier_first_v1", "the old policy, selection alone", lambda config: config),
    AblationStep("tier_quota_v1", "quotas, selection alone", lambda config: config),
    AblationStep("quota_flow", "+ the flow: trivial prompts, TODO lifetime, budget", _flow),
    AblationStep("quota_repeat", "+ repeat suppression", _repeat),
    AblationStep("quota_backbone", "+ Working Set and its deduplication", _working_set),
    AblationStep("quota_score", "+ final score", _score),
    AblationStep("seed_full", "+ hard rules, trust, recent memories, fallback to ignore", _full),
)
ABLATION_STEPS = {step.arm: step for step in ABLATION[2:]}


RECOMMENDED = "recommended"
RECOMMENDED_CONFIG: dict[str, Any] = {
    "autoRecall": {
        "selectionMode": "tier_quota_v1",
        # Deep enough to replace memories that the repeat penalty moves down.
        "tierSearchMultiplier": 4,
        # No slot is reserved: relevance decides, whatever the label.
        "quotas": {"mustMax": 0, "niceMin": 0, "unknownMax": 0, "wildcard": "best"},
        "repeatPenalty": 0.5,
        "repeatWindowTurns": 6,
    },
    # Hard rules go into the Working Set, which takes no slot from a memory.
    "workingSet": {"enabled": True},
    # The least relevant item is dropped first, however new it is.
    "budget": {"maxChars": 12_000, "minRecentSlots": 0, "overflowAction": "truncate_tail"},
    "lab": {
        # With reciprocal ranks and k = 60, one lane's clear best loses to two mediocre ranks.
        "fusion": {"method": "convex", "vectorWeight": 0.5},
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
            # What fits best may repeat; other scores are near each other, so half of one moves it far down.
            "repeatDecay": "once",
            "repeatExemptTop": 3,
            "repeatHistory": "conversation",
            "hardRules": True,
            "pinnedCounts": "extra",
            # What a newer memory replaces, or what has ended, ranks behind all others (E-100).
            "replaced": 0.12,
            "ended": True,
            # Six memories of this length fit into the budget.
            "itemMaxChars": 1_900,
        },
    },
}


def recommended(config: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the recommended configuration, overridden by the operator's ``config``."""
    return deep_merge(RECOMMENDED_CONFIG, only_here(config or {}))
