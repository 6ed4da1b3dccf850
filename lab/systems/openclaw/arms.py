"""openclaw-mem-engine as a system under test: its selection policies alone, and the whole flow of a profile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from lab.retrieval.row import Candidate
from lab.systems.contract import Recall, Request, Retrieval
from lab.systems.openclaw.config.resolve import describe
from lab.systems.openclaw.config.settings import AutoRecall, EngineConfig
from lab.systems.openclaw.finish import RECEIPTS, finish, item_of
from lab.systems.openclaw.recall.flow import recall
from lab.systems.openclaw.recall.retrieve import Tiers
from lab.systems.openclaw.recall.turn import Memories, Prompt, RecallState, Turn
from lab.systems.openclaw.select.outcome import Selection
from lab.systems.openclaw.select.tier_first import tier_first_v1
from lab.systems.openclaw.select.tier_quota import tier_quota_v1
from lab.systems.openclaw.select.tiers import TierPlan, recall_plans

Search = Callable[[TierPlan], Sequence[Candidate]]
Choose = Callable[[Sequence[TierPlan], AutoRecall, Search], Selection]


def _tier_first(plans: Sequence[TierPlan], settings: AutoRecall, search: Search) -> Selection:
    return tier_first_v1(plans, settings.max_items, search)


def _tier_quota(plans: Sequence[TierPlan], settings: AutoRecall, search: Search) -> Selection:
    return tier_quota_v1(plans, settings.max_items, settings.quota, search, strict_caps=settings.strict_caps)


# A new selection policy is one file and one line here.
POLICIES: dict[str, Choose] = {
    "tier_first_v1": _tier_first,
    "tier_quota_v1": _tier_quota,
}


class TieredRecall:
    """An arm that is a selection policy alone, in every profile: no repeat suppression, no working set, no budget."""

    def __init__(self, policy: str, config: EngineConfig, name: str | None = None) -> None:
        self.policy = policy
        self.config = config
        self.name = name or policy
        self.depth = config.max_items
        self.retrieval = Retrieval(config.text, config.embedding)

    def fresh(self) -> TieredRecall:
        """Itself: it has no past."""
        return self

    def describe(self) -> dict[str, Any]:
        """Name and configuration."""
        return {"name": self.name, "system": self.policy, "depth": self.depth, "config": describe(self.config)}

    def select(self, request: Request, memories: Memories) -> Recall:
        """Choose, then build the injected block and the receipt."""
        started = time.perf_counter_ns()
        tiers = Tiers(memories.view, memories.rows, self.config.auto_recall.search_limit, memories.shared)
        selection = self.choose(tiers, request.scope)
        elapsed = time.perf_counter_ns() - started
        spent = {"search": tiers.nanoseconds, "select": elapsed - tiers.waited}
        return finish(self.policy, request, selection, tiers.told(RECEIPTS), memories, self.config.max_items, spent)

    def choose(self, tiers: Tiers, scope: str | None) -> Selection:
        """The selection alone (spec 3): tiers are searched and fused as the policy asks for them."""
        settings = self.config.auto_recall
        plans = recall_plans(unknown_fallback=settings.include_unknown_fallback)
        return POLICIES[self.policy](plans, settings, lambda plan: tiers.fused(plan, scope))


class FlowRecall:
    """An arm that runs the whole flow of its profile. It has a past: one instance serves one conversation.

    ``turn`` is the last turn as the flow left it, for explanations.
    """

    def __init__(self, system: str, config: EngineConfig, name: str | None = None) -> None:
        self.system = system
        self.config = config
        self.name = name or system
        self.depth = config.max_items
        self.turn: Turn | None = None
        self._state = RecallState()

    @property
    def retrieval(self) -> Retrieval:
        """What its candidates depend on; the plugin writes its Working Set into the table that it searches."""
        settings = self.config.working_set
        writes = self.config.upstream and settings.enabled and settings.persist
        return Retrieval(
            self.config.text,
            self.config.embedding,
            self.config.docs if self.config.docs.enabled else None,
            self.name if writes else None,
        )

    def fresh(self) -> FlowRecall:
        """The same arm without a past."""
        return FlowRecall(self.system, self.config, self.name)

    def describe(self) -> dict[str, Any]:
        """Name and configuration."""
        return {"name": self.name, "system": self.system, "depth": self.depth, "config": describe(self.config)}

    def select(self, request: Request, memories: Memories) -> Recall:
        """Run the flow; the items returned are those that stand whole in the block."""
        prompt = Prompt(
            request.text, request.now_ms, request.session, request.scope, request.scoping, request.remembered
        )
        turn = self.turn = recall(prompt, self.config, memories, self._state)
        kept = {slot.id for slot in turn.kept}
        decided = turn.additions.get("decisions", {})
        items = tuple(
            item_of(one, memories.by_id[one.candidate.id], decided.get(one.candidate.id, one.decision))
            for one in turn.final
            if one.candidate.id in kept
        )
        return Recall(
            items,
            len(items),
            turn.context,
            turn.receipt or {},
            turn.timings,
            tuple(memories.by_id[identity].key for identity in turn.carried),
            turn.duplicates(),
            tuple(text for _, text in turn.log),
        )
