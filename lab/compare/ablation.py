"""What each step of the ablation does: means of every step, and its paired difference from the step below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.compare.paired import Difference, paired_differences
from lab.runs.scores import Scores
from lab.systems.openclaw.ablation import ABLATION


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step: the means of its arm, and differences from the step below by measure (none at the foot)."""

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


def ablation(scores: Scores, means: dict[str, Any], cutoff: int) -> list[StepResult]:
    """The ablation of a scored run. ``means`` is ``summarise(...)["arms"]``; steps without an arm are left out."""
    shown = measures_shown(cutoff)
    steps = [step for step in ABLATION if step.arm in means]
    results = []
    for place, step in enumerate(steps):
        below = paired_differences(scores, steps[place - 1].arm, step.arm, ()) if place else {}
        results.append(
            StepResult(
                step.arm,
                step.adds,
                {name: means[step.arm]["measures"].get(name) for name in shown},
                {name: below[name] for name in shown if name in below},
            )
        )
    return results
