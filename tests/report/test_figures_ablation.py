"""The ablation chart: marks of every step with a value, with colour and shape by significance."""

from __future__ import annotations

import pytest

from lab.compare.arms import StepResult
from lab.compare.paired import Difference
from lab.compare.statistics import Estimate
from lab.report.charts import Intervals
from lab.report.figures_arms import ablation_chart
from lab.report.slides import draw, rendered

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


def test_ablation_chart_marks_every_value() -> None:
    chart = ablation_chart(STEPS, 6)
    assert len(chart.panels) == 4
    for panel, name in zip(chart.panels, MEASURES, strict=True):
        assert isinstance(panel, Intervals)
        known = [one for one in STEPS if one.means[name] is not None]
        assert [row.mean for row in panel.rows] == [one.means[name] for one in known]
        # The first step is on top and named by its arm, others by what they add.
        assert [row.label for row in panel.rows] == [one.arm if one is STEPS[0] else one.adds for one in known]
        assert panel.axis.low == 0
    assert [[row.value for row in panel.rows] for panel in chart.panels if isinstance(panel, Intervals)][::3] == [
        ["0.500", "0.600", "0.400"],
        ["700", "650", "650", "900"],
    ]
    assert chart.panels[0].title.startswith("hit@6")


def test_ablation_chart_marks_follow_the_interval() -> None:
    chart = ablation_chart(STEPS, 6)
    assert [[row.better for row in panel.rows] for panel in chart.panels if isinstance(panel, Intervals)] == [
        [None, True, False],
        # An interval that contains zero, or a missing one, is not significant.
        [None, True, None, None],
        [None, True, False],
        # Sizes have no better direction.
        [None, None, None, None],
    ]


@pytest.mark.parametrize("steps", [STEPS[:1], [step("empty", (None,) * 4)], [step("a", (None,) * 4), *STEPS], STEPS])
def test_ablation_chart_with_missing_values_is_deterministic(steps: list[StepResult]) -> None:
    first, again = (rendered(draw(ablation_chart(steps, 6)), "svg") for _ in range(2))
    assert first == again
    assert len(first) > 1000
