"""An engine whose selection policy is switched while it runs: the arm of ``lab canary rollback``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.retrieval.retrievers import QueryContext
from lab.systems.contract import Ask, Recall
from lab.systems.kit import Kit
from lab.systems.openclaw.arms import FlowArm, FlowSystem
from lab.systems.openclaw.config.settings import EngineConfig

OLD, NEW = "tier_first_v1", "tier_quota_v1"


def with_policy(config: EngineConfig, policy: str) -> EngineConfig:
    """Return a configuration whose one line ``autoRecall.selectionMode`` names the policy."""
    return replace(config, auto_recall=replace(config.auto_recall, selection_mode=policy))


@dataclass(frozen=True, slots=True)
class SwitchedArm(FlowArm):
    """The flow under its configuration, except at the turns ``switched``, where it has the new policy.

    Store, history and stored Working Sets are kept over both switches, as in an engine that is not restarted.
    """

    switched: frozenset[str] = frozenset()

    def open(self, kit: Kit) -> FlowSystem:
        """Open a fresh engine."""
        return _SwitchedSystem(self, kit)


class _SwitchedSystem(FlowSystem):
    """A flow that takes its policy from the turn."""

    def __init__(self, arm: SwitchedArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._switched = arm.switched
        self._configs = {policy: with_policy(arm.config, policy) for policy in (OLD, NEW)}

    def select(self, ask: Ask, candidates: QueryContext) -> Recall:
        """Run the flow under the policy of this turn."""
        self.config = self._configs[NEW if ask.turn in self._switched else OLD]
        return super().select(ask, candidates)
