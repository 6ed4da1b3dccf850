"""A system with predefined answers, for tests and as the smallest example of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.recordings.model import Turn
from lab.systems.contract import NOTHING, ArmInfo, Ask, Item, MemorySystem, Recall, Writes
from lab.systems.kit import Kit


def recall_of(*items: Item, injected: int | None = None) -> Recall:
    """Return a recall of items, of which all, or the first ``injected``, are injected."""
    chosen = items[: len(items) if injected is None else injected]
    return Recall(items, len(chosen), "\n".join(item.text for item in chosen), {})


@dataclass(frozen=True)
class FixedArm:
    """An arm with ``answers`` by turn, one answer for all other turns, and ``writes`` by turn."""

    name: str = "fixed"
    answers: Mapping[str, Recall | Exception] = field(default_factory=dict)
    otherwise: Recall = field(default_factory=Recall)
    writes: Mapping[str, Writes] = field(default_factory=dict)
    cutoff: int = 6

    def describe(self) -> ArmInfo:
        """Describe the arm."""
        return ArmInfo(self.name, "fixed", self.cutoff, 50, at_most=self.cutoff, writes=bool(self.writes))

    def open(self, kit: Kit) -> Fixed:
        """Open the system; the kit is not used."""
        return Fixed(self)


class Fixed(MemorySystem):
    """The system. ``asked`` records the queries in order."""

    def __init__(self, arm: FixedArm) -> None:
        self._arm = arm
        self.asked: list[Ask] = []

    def recall(self, ask: Ask) -> Recall:
        """Return the answer for this turn; raise it if it is an exception."""
        self.asked.append(ask)
        answer = self._arm.answers.get(ask.turn, self._arm.otherwise)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def observe(self, turn: Turn) -> Writes:
        """Return the writes for this turn."""
        return self._arm.writes.get(turn.key, NOTHING)
