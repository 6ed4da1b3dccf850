"""Systems for the tests of a league: one that works, and one for each way not to be ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.recordings.model import Memory
from lab.systems.contract import ArmInfo, Ask, Item, MemorySystem, Recall
from lab.systems.kit import Kit
from lab.systems.spec import ArmSpec


@dataclass(frozen=True)
class PlainArm:
    """An arm that recalls what shares the most words; ``system`` says how it goes wrong."""

    name: str
    system: str

    def describe(self) -> ArmInfo:
        needs = ("model",) if self.system == "modelled" else None
        return ArmInfo(self.name, self.system, 4, 4, needs=needs)

    def open(self, kit: Kit) -> Plain:
        return Plain(self)


class Plain(MemorySystem):
    """The system."""

    def __init__(self, arm: PlainArm) -> None:
        self.arm, self.texts = arm, dict[str, str]()

    def remember(self, memories: Sequence[Memory]) -> None:
        self.texts |= {memory.key: memory.text for memory in memories}

    def forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self.texts[key]

    def recall(self, ask: Ask) -> Recall:
        if self.arm.system == "failing" and not ask.turn.startswith("admission"):
            raise ValueError
        words = set(ask.text.lower().split())
        keys = sorted(self.texts, key=lambda key: (-len(words & set(self.texts[key].lower().split())), key))[:4]
        items = tuple(Item(key, self.texts[key]) for key in keys)
        answer = Recall(items, len(items), "\n".join(item.text for item in items))
        return replace(answer, context="nothing of it" * bool(items)) if self.arm.system == "mute" else answer


def make(spec: ArmSpec) -> PlainArm:
    return PlainArm(spec.name, spec.system)
