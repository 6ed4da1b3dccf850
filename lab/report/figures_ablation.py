"""The ablation chart: one panel per measure, one mark per step, the first step on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.base.formatting import number
from lab.report.style import MARKS, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.compare.ablation import StepResult

PANELS = {
    "Success": "hit@{k}: a relevant\nmemory is an item",
    "Present": "present: it is an item or\nin the Working Set",
    "RepeatRate": "repeat rate",
    "InjectedChars": "injected characters",
}


@styled
def ablation_figure(steps: Sequence[StepResult], cutoff: int) -> Figure:
    """Draw the means of every step, marked as better, worse or not significantly different from the previous one."""
    figure, (row,) = subplots(1, len(PANELS), (13, 1.8 + 0.42 * len(steps)))
    for panel, (axes, (stem, title)) in enumerate(zip(row, PANELS.items(), strict=True)):
        name = f"{stem}@{cutoff}" if stem in ("Success", "Present") else stem
        points = [(position, step) for position, step in enumerate(steps) if step.means.get(name) is not None]
        axes.plot(
            [step.means[name] for _, step in points],
            [position for position, _ in points],
            color="#CCCCCC",
            linewidth=1.2,
        )
        for position, step in points:
            colour, marker = _verdict(step, name)
            value = step.means[name] or 0.0
            axes.plot(value, position, marker, color=colour, markersize=8)
            text = number(value)
            axes.annotate(text, (value, position), textcoords="offset points", xytext=(0, 8), ha="center", fontsize=8)
        axes.set(title=title.format(k=cutoff), ylim=(len(steps) - 0.5, -0.7))
        axes.margins(x=0.2)
        # The axis starts at 0, so that a small change looks small.
        axes.set_xlim(left=0)
        labels = [step.adds if position else step.arm for position, step in enumerate(steps)]
        axes.set_yticks(range(len(steps)), labels if panel == 0 else [""] * len(steps))
    figure.suptitle("Ablation: the effect of each phase", fontsize=13, fontweight="bold")
    figure.text(
        0.5,
        0.01,
        "Against the previous step: blue circle, better; orange square, worse; grey diamond, not significant.",
        ha="center",
        fontsize=9,
    )
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def _verdict(step: StepResult, name: str) -> tuple[str, str]:
    change = step.changes.get(name)
    return MARKS[change.is_better if change else None]
