"""A system that answers what it is told: for tests, and the smallest example of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.recordings.model import Turn
from lab.systems.contract import NOTHING, ArmInfo, Ask, Item, MemorySystem, Recall, Writes
from lab.systems.kit import Kit


def recall_of(*items: Item, injected: int | None = None) -> Recall:
    """A recall of items, of which all, or the first ``injected``, are injected."""
    some = items[: len(items) if injected is None else injected]
    return Recall(items, len(some), "\n".join(item.text for item in some), {})


@dataclass(frozen=True)
class FixedArm:
    """``answers`` by turn, an answer for all other turns, and ``writes`` by turn."""

    name: str = "fixed"
    answers: Mapping[str, Recall | Exception] = field(default_factory=dict)
    otherwise: Recall = field(default_factory=Recall)
    writes: Mapping[str, Writes] = field(default_factory=dict)
    cutoff: int = 6

    def describe(self) -> ArmInfo:
        """It writes where it was told to."""
        return ArmInfo(self.name, "fixed", self.cutoff, 50, at_most=self.cutoff, writes=bool(self.writes))

    def open(self, kit: Kit) -> Fixed:
        """It needs nothing of the kit."""
        return Fixed(self)


class Fixed(MemorySystem):
    """What was recalled is in ``asked``, in order."""

    def __init__(self, arm: FixedArm) -> None:
        self._arm = arm
        self.asked: list[Ask] = []

    def recall(self, ask: Ask) -> Recall:
        """What was said for this turn; an exception is raised."""
        self.asked.append(ask)
        answer = self._arm.answers.get(ask.turn, self._arm.otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def observe(self, turn: Turn) -> Writes:
        """What was said for this turn."""
        return self._arm.writes.get(turn.key, NOTHING)
