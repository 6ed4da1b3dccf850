"""Charts of the page: every mark is there, everything given is escaped, and shares have one unit."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lab.replay.explain import Counts
from lab.report import charts, units
from lab.report.cards import shows_texts
from lab.report.figures_arms import growth_chart, missed_chart
from lab.report.figures_studies import governance_chart, silence_chart
from lab.report.material import Growth
from lab.runs.directory import RunDirectory
from lab.studies.points import POLICIES, Chosen, GovernancePoint
from lab.studies.points import SilencePoint as Point

NASTY = "<b>&\"'"
MakeRun = Callable[..., RunDirectory]


def test_missed_chart_has_a_bar_for_each_cause() -> None:
    drawn = charts.html(missed_chart({NASTY: Counts(10, 4, 1, {"slot": 3, "depth": 2})}))
    assert NASTY not in drawn
    assert re.findall(r'<th scope="row" class="left">([^<]*)<', drawn) == [
        *("relevant", "no slot left", "not found by the search", "in the prompt")
    ]
    assert re.findall(r'<td class="num">(\d+)<', drawn) == ["10", "3", "2", "5"]


def test_silence_chart_has_a_curve_for_each_signal() -> None:
    points = [
        Point("model", "en", NASTY, signal, threshold, hit, false)
        for signal in ("top", "mean")
        for threshold, hit, false in ((0.0, 0.6, 0.9), (0.5, 0.3, 0.4), (1.0, 0.0, 0.0))
    ]
    drawn = charts.html(silence_chart(points))
    assert NASTY not in drawn
    assert drawn.count("<polyline") == 2
    assert drawn.count('class="mark"') == 6


@pytest.mark.parametrize(("after", "said"), [(0.25, "losing 5.0 points"), (0.3, "losing nothing")])
def test_silence_chart_says_what_a_chosen_threshold_loses_elsewhere(after: float, said: str) -> None:
    points = [Point("model", "en", "arm", "top", *values) for values in ((0.0, 0.6, 0.9), (0.5, 0.59, 0.4))]
    chosen = Chosen("model", "en", "arm", "top", "loss", 0.7, 9, 9, 0.5, (0.3, after), (0.9, 0.4))
    assert (
        silence_chart(points, [chosen])
        .words.says.split("; ")[1]
        .startswith(f"chosen on one half, on the other: to 40%, {said}")
    )


def test_governance_chart_of_single_turns_has_no_repeats() -> None:
    points = [
        GovernancePoint("length", threshold, arm, 0.1, 0.2, 0.3, 0.4, 0.5, None, 0.6, 2)
        for threshold in (0.9, 0.5)
        for arm in POLICIES
    ]
    hits, repeats, full = (panel for panel in governance_chart(points).panels if isinstance(panel, charts.Plot))
    assert [len(series.points) for series in hits.series] == [len(series.points) for series in full.series] == [2, 2]
    assert [series.points for series in repeats.series] == [[], []]
    assert "<polyline" not in charts.html(charts.Chart(charts.Words("t", "w"), [repeats], []))


def test_growth_chart_names_every_arm() -> None:
    drawn = charts.html(growth_chart([Growth("first", [1.0, 2.0, 3.0]), Growth(NASTY, [1.0, 1.0, 0.0])]))
    assert drawn.count("<polyline") == 2
    assert "&lt;b&gt;" in drawn
    assert NASTY not in drawn


def test_heat_shades_run_from_the_worst_to_the_best() -> None:
    heat = charts.Heat(NASTY, ("a", ["1", "2"]), ("b", ["3"]), [[1.0, 3.0]], "lower")
    assert charts.heat_shades(heat) == [[1.0, 0.0]]
    drawn = charts.html(charts.Chart(charts.Words("title"), [heat]))
    assert NASTY not in drawn
    assert re.findall(r"<td[^>]*>([^<]*)<", drawn) == ["1.000", "3.000"]
    # A negligible difference does not span all shades.
    assert charts.heat_shades(heat._replace(cells=[[1.0, 1.0001]]))[0] == pytest.approx([0.5, 0.5], abs=0.01)


def test_bars_of_a_series_are_vertical_lines_of_its_bounds() -> None:
    one = charts.Series("arm", [(1.0, 0.5)], "#0072B2", "o", "-", [(1.0, 0.25, 0.75)], has_bars=True)
    axis = charts.shares_axis()
    drawn = charts.html(charts.Chart(charts.Words("title"), [charts.Plot([one], axis, axis)]))
    assert 'd="M1000 750V250"' in drawn
    assert "<polygon" not in drawn


def test_strip_counts_every_conversation_once() -> None:
    drawn = charts.strip([0.0, 0.0, 0.5, -0.5], 0.0, -0.2, 0.2, None)
    heights = [float(height) for height in re.findall(r'class="bin"[^>]*height="([\d.]+)"', drawn)]
    assert sorted(heights) == [14.0, 14.0, 28.0]
    # All conversations equal: no division by 0.
    assert charts.strip([0.0], 0.0, None, None, None).count('class="bin"') == 1


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.0, 0.0, 6), (-0.5, 0.6, 4), (0.0, 209.0, 6)],
)
def test_nice_axis_covers_its_range_with_few_ticks(low: float, high: float, ticks: int) -> None:
    axis = charts.nice_axis(low, high)
    assert axis.low <= low
    assert axis.high >= high
    assert len(axis.ticks) == ticks


def test_units_are_percent_and_points_without_breaks() -> None:
    assert units.mean_of("Success@6", 0.6104) == "61.0\u00a0%"
    assert units.mean_of("LongestStreak", 3.5) == "3.500"
    assert units.change_of("Forbidden@6", 0.322, unit=True) == "+32.2\u00a0points"
    assert units.change_of("RepeatRate", -0.0004) == "+0.0"
    assert units.span_of("RepeatRate", -0.224, -0.19) == "\u221222.4 to \u221219.0"
    assert units.unbroken("95 % of 44%") == "95\u00a0% of 44\u00a0%"
    address = "http://127.0.0.1:8765/turn?conversation=choir&turn=choir%2Fs07%2Ft03"
    assert units.unbroken(address) == address


def test_texts_of_other_recordings_are_shown_only_on_request(make_run: MakeRun) -> None:
    run = make_run("one", sessions=2)
    assert [shows_texts(run, asked) for asked in (None, False, True)] == [False, False, True]
