"""Run the configurations of one group as one system: one frame per recall point, from which all of them select.

Configurations belong to one group if they differ only in what :mod:`lab.systems.openclaw.many.select` takes as arrays:
quotas, caps, penalty, window, decay.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.recordings.model import Memory
from lab.retrieval.retrievers import QueryContext, Retrieval
from lab.systems.contract import Ask, ManyRecalls, ManySystem, Retriever
from lab.systems.kit import Kit
from lab.systems.openclaw.config.settings import DEFAULT_QUOTA, EngineConfig
from lab.systems.openclaw.listing import Listing
from lab.systems.openclaw.many.frames import Frame, Framer, Known
from lab.systems.openclaw.many.pack import Packer
from lab.systems.openclaw.many.select import Earlier, Histories, knobs_of, select_many
from lab.systems.openclaw.many.selection import TIERS, Knobs
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.seed.hard_rules import rule_slots
from lab.systems.openclaw.select.policies import many_of

if TYPE_CHECKING:
    import numpy as np


NICE = TIERS.index("nice")


def group_of(config: EngineConfig, policy: str, *, flow: bool) -> Hashable | None:
    """Return a key that the configurations of a group share; None for one that cannot be batched.

    Not batched are policies without a vectorised function and, in flows: Working Set, documents, fallback scopes, soft
    trust, receipts inside the prompt, the policy loop, and the plugin's flow.
    """
    if many_of(policy) is None:
        return None
    unsupported = flow and (
        config.upstream
        or config.working_set.enabled
        or config.docs.enabled
        or (config.scope_policy.enabled and config.scope_policy.fallback_scopes)
        or config.phases.trust == "soft"
        or config.phases.tier_mode == "loop_v0"
        or (config.receipts.enabled and config.receipts.verbosity == "high")
        or not config.auto_recall.enabled
    )
    if unsupported:
        return None
    # Set what may differ within a group to one value.
    recall = replace(
        config.auto_recall, quota=DEFAULT_QUOTA, strict_caps=True, repeat_penalty=0.0, repeat_window_turns=0
    )
    shared = replace(config, auto_recall=recall, phases=replace(config.phases, repeat_decay=""))
    return policy, flow, repr(shared)


@dataclass(frozen=True, slots=True)
class Group:
    """Configurations with the same :func:`group_of`."""

    configs: Sequence[EngineConfig]
    policy: str
    flow: bool


class Many(ManySystem):
    """A group in one conversation."""

    def __init__(self, group: Group, kit: Kit, memories: Sequence[Memory]) -> None:
        import numpy as np

        first = self.config = group.configs[0]
        retrieval = Retrieval(first.text, first.embedding)
        self.retrieval_key: Hashable = retrieval
        self._retrieval, self._kit = retrieval, kit
        self._listing = Listing()
        rows = kit.rows.of(memories)
        self._hard = np.asarray([*(row.hard_rule for row in rows), False])
        self._known = Known(rows)
        self._framer = Framer(first, self._known, flow=group.flow)
        self._arrange = many_of(group.policy)
        self._knobs = knobs_of(group.configs)
        self._packer = Packer(self._known, first, flow=group.flow)
        self._histories: dict[str, Histories] = {}
        # In how many turns of any session each configuration injected each row.
        self._lifetimes = np.zeros((len(group.configs), len(rows) + 1), np.int32)

    def open_retriever(self) -> Retriever:
        """Return a retriever over the memories that the loop provides."""
        return self._kit.retriever(self._retrieval)

    def remember(self, memories: Sequence[Memory]) -> None:
        """Add new memories to the listing."""
        self._listing.add(self._kit.rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove deleted memories."""
        for row in self._kit.rows.known(keys):
            self._listing.remove(row)

    def select_many(self, ask: Ask, candidates: QueryContext) -> ManyRecalls:
        """Select for every configuration."""
        import numpy as np

        framer, known, arrange = self._framer, self._known, self._arrange
        assert arrange is not None  # noqa: S101 - otherwise there is no group
        memories = Memories.of(candidates, self._listing)
        whole = framer.frame(ask, memories)
        history = self._history(ask) if framer.repeats else None
        count = len(self._knobs.strict)
        injected = np.full((count, self.config.max_items), known.none, np.int32)
        hits, chars, cut = injected.copy(), np.zeros(count, np.int64), np.zeros(count, np.int64)
        rule_counts = self._rule_slots(whole)
        for rules in np.unique(rule_counts).tolist():
            at = (rule_counts == rules).nonzero()[0]
            # Configurations with another floor of nice leave slots to another number of hard rules.
            frame = whole if rules == len(whole.hard) else framer.frame(ask, memories, rules)
            earlier = Earlier(
                history.times(frame.rows)[at] if history else None,
                self._lifetimes[at][:, frame.rows] if framer.novel else None,
            )
            knobs = Knobs(*(values[at] for values in self._knobs))
            slots = self.config.max_items - rules
            chosen = select_many(frame, knobs, arrange, slots, earlier, known.none, rescored=framer.rescored)
            injected[at], chars[at], cut[at] = self._packer.pack(frame.hard, chosen)
            hits[at] = np.where(np.isin(injected[at], frame.hard), known.none, injected[at])
        if ask.session is not None and not ask.probe and (not whole.skipped or self._counts_all):
            if history:
                history.remember(hits)
            if framer.novel:
                self._lifetimes[np.arange(count)[:, None], hits] += 1
        # A text is only cut if it is the last one left, and a hard rule that is cut does not count.
        kept: np.ndarray = np.where(cut > 0, 0, self._hard[injected].sum(1))
        return ManyRecalls(injected, chars, kept, "skipped" if whole.skipped else "ok")

    def _rule_slots(self, frame: Frame) -> np.ndarray:
        """Return for how many hard rules each configuration has slots, int64 ``[c]``."""
        import numpy as np

        nice = np.minimum(self._knobs.quotas[:, 1], int((frame.tiers == NICE).sum()))
        return np.asarray([rule_slots(len(frame.hard), self.config.max_items, floor) for floor in nice.tolist()])

    @property
    def _counts_all(self) -> bool:
        return self.config.phases.repeat_counts == "all_user_turns"

    def _history(self, ask: Ask) -> Histories | None:
        if ask.session is None:
            return None
        key = ask.session if self.config.phases.repeat_history == "session" else ""
        history = self._histories.get(key)
        if history is None:
            history = self._histories[key] = Histories(self._knobs.windows, self._known.none)
        return history
