"""An arm whose host does not run it: it injects nothing, and says why (HC-9)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from lab.systems.contract import Arm, ArmInfo, Ask, MemorySystem, Recall
from lab.systems.kit import Kit


@dataclass(frozen=True, slots=True)
class SwitchedOffArm:
    """The arm ``base``, switched off for the reason ``why``."""

    base: Arm
    why: str

    @property
    def name(self) -> str:
        """The name of the arm."""
        return self.base.name

    @property
    def claims(self) -> tuple[str, ...]:
        """What it must prove: that it injects nothing."""
        return ("nothing",)

    def describe(self) -> ArmInfo:
        """Return the description of the arm, with the reason; it writes nothing, and needs nothing."""
        info = self.base.describe()
        return replace(info, writes=False, stateful=False, derives=False, needs_gold=False, needs=None, off=self.why)

    def open(self, kit: Kit) -> MemorySystem:
        """Open the system."""
        del kit
        return _SwitchedOff(self.why)


class _SwitchedOff(MemorySystem):
    """Answers every query with nothing."""

    def __init__(self, why: str) -> None:
        self._receipt = {"skipped": True, "skipReason": "switched_off", "why": why}

    def recall(self, ask: Ask) -> Recall:
        """Return an empty recall whose receipt has the reason."""
        del ask
        return Recall(receipt=dict(self._receipt), status="skipped")
