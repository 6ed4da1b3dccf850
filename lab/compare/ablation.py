"""Ablation results: the means of every step, and its paired differences from the previous step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lab.compare.paired import Difference, paired_differences
from lab.runs.scores import Scores
from lab.systems.openclaw.ablation import ABLATION


@dataclass(frozen=True, slots=True)
class StepResult:
    """One ablation step: the means of its arm, and differences from the previous step by measure, if any."""

    arm: str
    adds: str
    means: dict[str, float | None]
    changes: dict[str, Difference]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "arm": self.arm,
            "adds": self.adds,
            "means": self.means,
            "changes": {name: change.estimate._asdict() | {"p": change.p} for name, change in self.changes.items()},
        }


def measures_shown(cutoff: int) -> dict[str, str]:
    """Return the measures of an ablation with their short column headings."""
    return {
        f"Success@{cutoff}": f"hit@{cutoff}",
        f"Present@{cutoff}": "present",
        "RepeatRate": "repeat",
        "RepeatDominance": "domin.",
        "NicePresence": "nice",
        "BackboneDuplication": "dupl.",
        "HardRules": "hard",
        "InjectedChars": "chars",
    }


def ablation(scores: Scores, means: dict[str, Any], cutoff: int) -> list[StepResult]:
    """Return the ablation of a scored run; steps whose arm is not in the run are left out.

    ``means`` is ``summarise(...)["arms"]``.
    """
    shown = measures_shown(cutoff)
    steps = [step for step in ABLATION if step.arm in means]
    results = []
    for index, step in enumerate(steps):
        changes = paired_differences(scores, steps[index - 1].arm, step.arm, ()) if index else {}
        results.append(
            StepResult(
                step.arm,
                step.adds,
                {name: means[step.arm]["measures"].get(name) for name in shown},
                {name: changes[name] for name in shown if name in changes},
            )
        )
    return results
