"""The ablation chart: marks of every step with a value, with colour and shape by significance."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lab.compare.ablation import StepResult
from lab.compare.paired import Difference
from lab.compare.statistics import Estimate
from lab.report.figures import save
from lab.report.figures_ablation import ablation_figure

BETTER, WORSE, OPEN = ("#0072B2", "o"), ("#D55E00", "s"), ("#777777", "D")
MEASURES = ("Success@6", "Present@6", "RepeatRate", "InjectedChars")


def change(measure: str, mean: float, low: float | None, high: float | None) -> Difference:
    return Difference(measure, 10, 6, 0.5, 0.5 + mean, Estimate(mean, low, high, 0.1, 1.0, 0.2), 0.01, None, 1, 2, 3)


def step(arm: str, values: tuple[float | None, ...], *changes: Difference) -> StepResult:
    means = dict(zip(MEASURES, values, strict=True))
    return StepResult(arm, f"+ {arm}", means, {one.measure: one for one in changes})


STEPS = [
    step("foot", (0.5, 0.5, 0.9, 700.0)),
    step(
        "better",
        (0.6, 0.6, 0.5, 650.4),
        change("Success@6", 0.1, 0.05, 0.15),
        change("Present@6", 0.1, 0.05, 0.15),
        change("RepeatRate", -0.4, -0.5, -0.3),
        change("InjectedChars", -49.6, -60.0, -40.0),
    ),
    step("missing", (None, 0.6, None, 650.4), change("Present@6", 0.0, -0.1, 0.1)),
    step(
        "worse",
        (0.4, 0.7, 0.6, 900.0),
        change("Success@6", -0.2, -0.3, -0.1),
        change("Present@6", 0.1, None, None),
        change("RepeatRate", 0.1, 0.05, 0.15),
        change("InjectedChars", 249.6, 200.0, 300.0),
    ),
]


def test_ablation_figure_marks_every_value() -> None:
    figure = ablation_figure(STEPS, 6)
    assert len(figure.axes) == 4
    for axes, name in zip(figure.axes, MEASURES, strict=True):
        path, *marks = axes.lines
        points = [(one.means[name], at) for at, one in enumerate(STEPS) if one.means[name] is not None]
        assert list(zip(path.get_xdata(), path.get_ydata(), strict=True)) == points
        assert [(mark.get_xdata()[0], mark.get_ydata()[0]) for mark in marks] == points
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.500", "0.600", "0.400"]
    assert [text.get_text() for text in figure.axes[3].texts] == ["700", "650", "650", "900"]


def test_ablation_figure_marks_follow_the_interval() -> None:
    found = [
        [(mark.get_color(), mark.get_marker()) for mark in axes.lines[1:]] for axes in ablation_figure(STEPS, 6).axes
    ]
    assert found == [
        [OPEN, BETTER, WORSE],
        # An interval that contains zero, or a missing one, is not significant.
        [OPEN, BETTER, OPEN, OPEN],
        [OPEN, BETTER, WORSE],
        # Sizes have no better direction.
        [OPEN, OPEN, OPEN, OPEN],
    ]


def test_ablation_figure_names_steps_once() -> None:
    first, *others = ablation_figure(STEPS, 6).axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["foot", "+ better", "+ missing", "+ worse"]
    assert {label.get_text() for axes in others for label in axes.get_yticklabels()} == {""}
    # The first step is on top, and titles name the cutoff.
    assert first.get_ylim() == (3.5, -0.7)
    assert first.get_title().startswith("hit@6")


def test_ablation_figure_titles_do_not_overlap() -> None:
    figure = ablation_figure(STEPS, 6)
    figure.draw_without_rendering()
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("steps", [STEPS[:1], [step("empty", (None,) * 4)], [step("a", (None,) * 4), *STEPS], STEPS])
def test_ablation_figure_with_missing_values_is_deterministic(steps: list[StepResult], tmp_path: Path) -> None:
    again = [save(ablation_figure(steps, 6), tmp_path / name) for name in ("a", "b")]
    assert [path.read_bytes() for path in again[0]] == [path.read_bytes() for path in again[1]]
    assert all(path.stat().st_size > 1000 for path in again[0])
