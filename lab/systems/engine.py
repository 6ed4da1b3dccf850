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
    """The fused candidates of each tier for one request, kept with the candidates so that arms share them.

    ``searched`` are the lanes of the tiers that this arm asked for, in order; ``waited`` is what searching took here,
    in nanoseconds, which is less where another arm had searched before.
    """

    def __init__(self, candidates: Candidates, scope: str | None, limit: int) -> None:
        self.searched: list[Lanes] = []
        self.waited = 0
        self._candidates, self._scope, self._limit = candidates, scope, limit

    def fused(self, plan: TierPlan) -> list[Candidate]:
        """Candidates of one tier, best first."""
        where = Filter(self._scope, plan.labels)
        found = self._candidates.fused.get((where, self._limit))
        if found is None:
            started = time.perf_counter_ns()
            lanes = self._candidates.view.search(where, self._limit)
            self.waited += time.perf_counter_ns() - started
            found = self._candidates.fused[where, self._limit] = (
                lanes,
                fuse(lanes, self._candidates.rows, self._limit),
            )
        self.searched.append(found[0])
        return found[1]


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
        started = time.perf_counter_ns()
        tiers = Tiers(candidates, request.scope, self.config.search_limit)
        selection = self.choose(tiers)
        elapsed = time.perf_counter_ns() - started
        spent = {"search": sum(lanes.nanoseconds for lanes in tiers.searched), "select": elapsed - tiers.waited}
        return finish(self.policy, request, selection, tiers.searched, candidates, self.config.max_items, spent)

    def choose(self, tiers: Tiers) -> Selection:
        """The selection alone (spec 3): tiers are searched and fused as the policy asks for them."""
        plans = recall_plans(unknown_fallback=self.config.include_unknown_fallback)
        if self.policy == "tier_first_v1":
            return tier_first_v1(plans, self.config.max_items, tiers.fused)
        return tier_quota_v1(
            plans, self.config.max_items, self.config.quota, tiers.fused, strict_caps=self.config.strict_caps
        )
