"""Figures draw what they are given, and equal data give equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest

from lab.compare.paired import Difference
from lab.compare.statistics import Estimate
from lab.report.figures import (
    COLOURS,
    TIERS,
    composition_figure,
    forest_figure,
    saturation_figure,
    save,
    timeline_figure,
    tradeoff_figure,
)
from lab.sweep.saturation import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETTER, WORSE, UNDECIDED = "#0072B2", "#D55E00", "#777777"


def _difference(measure: str, mean: float, low: float | None, high: float | None) -> Difference:
    estimate = Estimate(mean, low, high, 0.1, 1.0, 0.2)
    return Difference(measure, 10, 6, 0.5, 0.5 + mean, estimate, 0.03, None, 1, 2, 3)


DIFFERENCES = [
    _difference("Success@6", 0.2, 0.1, 0.3),
    _difference("R@6", -0.1, -0.3, 0.1),
    _difference("RepeatRate", -0.4, -0.5, -0.3),
    _difference("nDCG@6", 0.0, -0.1, 0.1),
]
TURNS = {"tier_first_v1": [["a", "b"], ["a"], []], "hybrid": [["c"], ["a", "c"], ["b"]]}
LABELS = {"a": "must", "b": "nice", "c": "unknown"}
POINTS = [
    *(
        Point("distractors", share, seed, "tier_first_v1", 1.0, hit, 0.1, 0.5)
        for share, seed, hit in [(0.3, 0, 0.2), (0.3, 1, 0.4), (0.1, 0, 0.6), (0.1, 1, 0.6)]
    ),
    Point("distractors", 0.1, 0, "tier_quota_v1", 1.0, 0.7, None, 0.4),
    Point("independent", 0.1, 0, "tier_quota_v1", 1.0, 0.8, 0.3, 0.4),
    Point("reference", None, None, "hybrid", None, 0.55, None, 0.35),
    Point("reference", None, None, "oracle", None, 1.0, None, None),
]
MEASURES: dict[str, dict[str, float | None]] = {
    "vector": {"Success@6": 0.5, "RepeatRate": 0.4},
    "house_arm": {"Success@6": 0.25, "RepeatRate": 0.75},
    "none": {"Success@6": 0.0, "RepeatRate": None},
}
SHARES = {
    "first": {"must": 1.0},
    "none": {"must": 0.0, "nice": 0.0},
    "quota": {"must": 0.25, "nice": 0.7, "ignore": 0.05},
}
DRAW: dict[str, Callable[[], Figure]] = {
    "saturation": lambda: saturation_figure(POINTS),
    "tradeoff": lambda: tradeoff_figure(MEASURES),
    "forest": lambda: forest_figure(DIFFERENCES, "base", "cand"),
    "composition": lambda: composition_figure(SHARES),
    "timeline": lambda: timeline_figure(TURNS, LABELS),
}


def _points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


@pytest.mark.parametrize("name", DRAW)
def test_equal_data_give_equal_bytes(name: str, tmp_path: Path) -> None:
    first, second = save(DRAW[name](), tmp_path / "first"), save(DRAW[name](), tmp_path / "second")
    assert [file.name for file in first] == ["first.svg", "first.png"]
    assert [one.read_bytes() == other.read_bytes() for one, other in zip(first, second, strict=True)] == [True, True]
    assert first[0].read_bytes().startswith(b"<?xml")
    assert first[1].read_bytes().startswith(b"\x89PNG")
    # Neither a date nor a program's version may say when or where it was drawn.
    assert b"<dc:date>" not in first[0].read_bytes()
    assert b"Software" not in first[1].read_bytes()


@pytest.mark.parametrize("name", DRAW)
def test_a_drawing_leaves_the_style_of_others_alone(name: str) -> None:
    before = dict(mpl.rcParams)
    DRAW[name]()
    assert dict(mpl.rcParams) == before


def test_a_forest_draws_each_difference_with_its_interval() -> None:
    axes = forest_figure(DIFFERENCES, "base", "cand").axes[0]
    # Pairs of an interval and a mean, from the bottom up, then the zero line.
    *drawn, zero = axes.lines
    intervals, means = [_points(line) for line in drawn[::2]], [_points(line) for line in drawn[1::2]]
    assert intervals == [
        [(one.estimate.low, place), (one.estimate.high, place)] for place, one in enumerate(reversed(DIFFERENCES))
    ]
    assert means == [[(one.estimate.mean, place)] for place, one in enumerate(reversed(DIFFERENCES))]
    assert zero.get_xdata()[0] == zero.get_xdata()[1] == 0
    assert axes.get_xlabel() == "cand minus base, with its 95 % interval"
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "nDCG@6 (higher is better)",
        "RepeatRate (lower is better)",
        "R@6 (higher is better)",
        "Success@6 (higher is better)",
    ]


def test_a_forest_colours_by_what_is_shown_better_not_by_the_sign() -> None:
    """An interval that crosses zero decides nothing, whatever its middle says."""
    decided = [
        _difference("Success@6", 0.1, 0.05, 0.15),
        _difference("R@6", -0.1, -0.15, -0.05),
        _difference("RepeatRate", -0.2, -0.3, -0.1),
        _difference("Forbidden@6", 0.2, 0.1, 0.3),
        _difference("nDCG@6", 0.1, -0.05, 0.25),
    ]
    means = forest_figure(decided[::-1], "base", "cand").axes[0].lines[1:-1:2]
    assert [(line.get_color(), line.get_marker()) for line in means] == [
        (BETTER, "o"),
        (WORSE, "s"),
        (BETTER, "o"),
        (WORSE, "s"),
        (UNDECIDED, "D"),
    ]


def test_a_forest_leaves_out_what_has_no_interval() -> None:
    axes = forest_figure([*DIFFERENCES[:1], _difference("R@6", 0.1, None, None)], "base", "cand").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Success@6 (higher is better)"]


def test_a_timeline_places_each_memory_in_its_row_by_first_appearance() -> None:
    figure = timeline_figure(TURNS, LABELS)
    drawn = [
        {(line.get_label(), line.get_color(), spot) for line in axes.lines for spot in _points(line)}
        for axes in figure.axes
    ]
    must, nice, unknown = TIERS["must"], TIERS["nice"], TIERS["unknown"]
    assert drawn == [
        {("must", must, (1, 0)), ("nice", nice, (1, 1)), ("must", must, (2, 0))},
        {("unknown", unknown, (1, 0)), ("must", must, (2, 1)), ("unknown", unknown, (2, 0)), ("nice", nice, (3, 2))},
    ]
    assert [axes.get_title() for axes in figure.axes] == [
        "tier_first_v1: 2 different memories",
        "hybrid: 3 different memories",
    ]
    # One scale for both, so that a short list of memories looks short.
    assert {axes.get_ylim() for axes in figure.axes} == {(-1, 3)}


def test_a_timeline_of_an_arm_that_injects_nothing_can_be_drawn() -> None:
    figure = timeline_figure({"none": [[], []], "hybrid": [["a"], []]}, LABELS)
    assert [axes.get_title() for axes in figure.axes] == ["none: 0 different memories", "hybrid: 1 different memories"]


def test_a_tradeoff_places_each_arm_that_has_both_values() -> None:
    axes = tradeoff_figure(MEASURES).axes[0]
    assert [(_points(line), line.get_color()) for line in axes.lines] == [
        ([(0.4, 0.5)], COLOURS["vector"]),
        ([(0.75, 0.25)], "#333333"),
    ]
    named = [text.get_text().split()[0] for text in axes.get_legend().get_texts()]
    assert named == ["vector", "house_arm"]


def test_a_composition_stacks_shares_to_one() -> None:
    axes = composition_figure(SHARES).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["quota", "first"]
    bars = [(round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width()) for bar in axes.patches]
    rows = [[round(value, 9) for place, *bar in bars if place == row and bar[1] for value in bar] for row in (0, 1)]
    # Where each bar begins, and how long it is.
    assert rows == [[0.0, 0.25, 0.25, 0.7, 0.95, 0.05], [0.0, 1.0]]
    assert [text.get_text() for text in axes.texts] == ["25%", "70%", "100%"]


def test_a_saturation_draws_the_mean_over_draws_and_the_range_as_a_band() -> None:
    figure = saturation_figure(POINTS)
    axes = figure.axes[0]
    first = next(line for line in axes.lines if line.get_label() == "tier_first_v1")
    assert _points(first) == [(0.1, pytest.approx(0.6)), (0.3, pytest.approx(0.3))]
    corners = {(float(x), float(y)) for x, y in axes.collections[0].get_paths()[0].vertices}
    assert corners == {(0.1, 0.6), (0.3, 0.2), (0.3, 0.4)}
    flat = {line.get_label(): set(line.get_ydata()) for line in axes.lines if "tier" not in str(line.get_label())[:5]}
    assert flat == {"hybrid (no tiers)": {0.55}, "oracle": {1.0}}
    lower = next(line for line in figure.axes[3].lines if line.get_label() == "tier_quota_v1")
    assert _points(lower) == [(0.1, 0.8)]
