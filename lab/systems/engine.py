"""openclaw-mem-engine as a system under test: selection policies over a store that tiers can be searched in."""

from __future__ import annotations

import time
from typing import Any

from lab.engine.config import EngineConfig
from lab.engine.memory import Candidate
from lab.engine.recall.fuse import fuse
from lab.engine.recall.select.outcome import Selection
from lab.engine.recall.select.tier_first import tier_first_v1
from lab.engine.recall.select.tier_quota import tier_quota_v1
from lab.engine.recall.tiers import TierPlan, recall_plans
from lab.engine.store.contract import Filter, Lanes
from lab.systems.contract import Candidates, Recall, Request
from lab.systems.finish import finish

POLICIES = ("tier_first_v1", "tier_quota_v1")


class Tiers:
    """The fused candidates of each tier for one request; a tier is searched when it is first asked for."""

    def __init__(self, candidates: Candidates, scope: str | None, limit: int) -> None:
        self.searched: list[Lanes] = []
        self._candidates, self._scope, self._limit = candidates, scope, limit
        self._fused: dict[TierPlan, list[Candidate]] = {}

    def fused(self, plan: TierPlan) -> list[Candidate]:
        """Candidates of one tier, best first."""
        if plan not in self._fused:
            lanes = self._candidates.view.search(Filter(self._scope, plan.labels), self._limit)
            self.searched.append(lanes)
            self._fused[plan] = fuse(lanes, self._candidates.rows, self._limit)
        return self._fused[plan]


class TieredRecall:
    """An arm that is a selection policy alone, in every profile: no repeat suppression, no working set, no budget."""

    def __init__(self, policy: str, config: EngineConfig, name: str | None = None) -> None:
        self.policy = policy
        self.config = config
        self.name = name or policy
        self.depth = config.max_items
        self.retrieval = config.text

    def describe(self) -> dict[str, Any]:
        """Name and configuration."""
        return {"name": self.name, "system": self.policy, "depth": self.depth, "config": self.config.describe()}

    def select(self, request: Request, candidates: Candidates) -> Recall:
        """Choose, then build the injected block and the receipt."""
        config = self.config
        spent: dict[str, int] = {}
        started = time.perf_counter_ns()
        tiers = Tiers(candidates, request.scope, config.search_limit)
        selection = self.choose(tiers)
        spent["search"] = sum(lanes.nanoseconds for lanes in tiers.searched)
        spent["select"] = time.perf_counter_ns() - started
        searched = tiers.searched
        rows = {
            candidates.rows[hit.row].id: candidates.rows[hit.row]
            for lanes in searched
            for hits in lanes[:2]
            for hit in hits
        }
        return finish(self.policy, request, selection, searched, rows, candidates.rows, config.max_items, spent)

    def choose(self, tiers: Tiers) -> Selection:
        """The selection alone (spec 3): tiers are searched and fused as the policy asks for them."""
        plans = recall_plans(unknown_fallback=self.config.include_unknown_fallback)
        if self.policy == "tier_first_v1":
            return tier_first_v1(plans, self.config.max_items, tiers.fused)
        return tier_quota_v1(
            plans, self.config.max_items, self.config.quota, tiers.fused, strict_caps=self.config.strict_caps
        )
