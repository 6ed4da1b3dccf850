"""``verbatim``: store every turn unchanged as a memory and recall with ``hybrid``. The simplest system that captures.

Configuration: ``{"roles": ["user", "assistant"]}`` (both by default), plus what ``hybrid`` reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lab.recordings.model import Memory, Turn
from lab.systems.baselines.arm import SEARCHED, Baseline, BaselineArm, BaselineSystem, arm_of, by_both
from lab.systems.baselines.long_context import ROLES, roles_of
from lab.systems.contract import NOTHING, ArmInfo, Ask, Recall, Stored, Writes
from lab.systems.kit import Kit
from lab.systems.spec import ArmSpec

VERBATIM = Baseline("verbatim", by_both, claims=SEARCHED, reranks=True)


@dataclass(frozen=True, slots=True)
class VerbatimArm(BaselineArm):
    """Hybrid search over the turns of the given roles."""

    roles: tuple[str, ...] = ROLES
    # It searches what it writes.
    shares: ClassVar[bool] = False

    def describe(self) -> ArmInfo:
        """Return the baseline's description with the roles."""
        info = BaselineArm.describe(self)
        return replace(info, writes=True, stateful=True, config={**info.config, "roles": list(self.roles)})

    def open(self, kit: Kit) -> VerbatimSystem:
        """Open an empty system."""
        return VerbatimSystem(self, kit)


def make(spec: ArmSpec) -> VerbatimArm:
    """Make the arm. Raise :class:`UnusableInput` if ``roles`` is not a list of names."""
    given = dict(spec.config) if isinstance(spec.config, Mapping) else {}
    roles = roles_of(given, spec.where)
    given.pop("roles", None)
    arm = arm_of(VERBATIM, replace(spec, config=given if isinstance(spec.config, Mapping) else spec.config))
    return VerbatimArm(arm.name, arm.baseline, arm.config, arm.depth, arm.seed, arm.answers, roles)


class VerbatimSystem(BaselineSystem):
    """A system that searches what it writes, so its search is not shared."""

    def __init__(self, arm: VerbatimArm, kit: Kit) -> None:
        super().__init__(arm, kit)
        self._search = kit.search(arm.retrieval)
        self._roles = arm.roles

    def remember(self, memories: Sequence[Memory]) -> None:
        """Store memories that the loop provides."""
        self._search.write(self._kit.rows.of(memories))

    def forget(self, keys: Sequence[str]) -> None:
        """Remove deleted memories."""
        self._search.remove(self._kit.rows.known(keys))

    def recall(self, ask: Ask) -> Recall:
        """Search, fuse and select."""
        started = time.perf_counter_ns()
        context = self.context = self._search.retrieve(ask.text, ask.faults)
        retrieved = time.perf_counter_ns() - started
        recall = self.select(ask, context)
        recall.timings["retrieve"] = retrieved
        return recall

    def observe(self, turn: Turn) -> Writes:
        """Store the turn unchanged."""
        text = turn.said or turn.text
        if not self._kit.captures or turn.role not in self._roles or not text.strip():
            return NOTHING
        memory = Memory(
            f"{turn.key}#0",
            text,
            turn.index_text or text,
            visible_from=turn.seq + 1,
            created_at=turn.time_ms,
            scope=turn.scope,
        )
        self._search.write(self._kit.rows.of([memory]))
        return Writes(created=(Stored(memory.key, text, (turn.key,)),))

    def close(self) -> None:
        """Close the search."""
        self._search.close()
