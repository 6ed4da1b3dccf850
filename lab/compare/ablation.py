"""What each rung of the ladder does: means of every rung, and its paired difference from the rung below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.compare.paired import Difference, paired_differences
from lab.runs.scores import Scores
from lab.systems.openclaw.ladder import LADDER


@dataclass(frozen=True, slots=True)
class Step:
    """One rung: the means of its arm, and differences from the rung below by measure (none at the foot)."""

    arm: str
    adds: str
    means: dict[str, float | None]
    changes: dict[str, Difference]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "arm": self.arm,
            "adds": self.adds,
            "means": self.means,
            "changes": {name: one.estimate._asdict() | {"p": one.p} for name, one in self.changes.items()},
        }


def measures_shown(cutoff: int) -> dict[str, str]:
    """The measures of an ablation with their short headings."""
    return {
        f"Success@{cutoff}": f"hit@{cutoff}",
        "Present": "present",
        "RepeatRate": "repeat",
        "RepeatDominance": "domin.",
        "NicePresence": "nice",
        "BackboneDuplication": "dupl.",
        "HardRules": "hard",
        "InjectedChars": "chars",
    }


def ablation(scores: Scores, means: dict[str, Any], cutoff: int) -> list[Step]:
    """The ladder of a scored run. ``means`` is ``summarise(...)["arms"]``; rungs without an arm are left out."""
    shown = measures_shown(cutoff)
    rungs = [rung for rung in LADDER if rung.arm in means]
    steps = []
    for place, rung in enumerate(rungs):
        below = paired_differences(scores, rungs[place - 1].arm, rung.arm, ()) if place else {}
        steps.append(
            Step(
                rung.arm,
                rung.adds,
                {name: means[rung.arm]["measures"].get(name) for name in shown},
                {name: below[name] for name in shown if name in below},
            )
        )
    return steps
