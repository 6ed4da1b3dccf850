"""The ablation from the old policy to the full engine of the seeds: each step adds one feature to the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from lab.systems.openclaw.config.settings import EngineConfig, Phases


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
