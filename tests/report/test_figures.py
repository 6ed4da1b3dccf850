"""Figures: what they draw, and equal bytes for equal data."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest

from lab.compare.paired import Difference, Slice
from lab.compare.statistics import Estimate
from lab.report import style
from lab.report.figures import (
    COLOURS,
    TIERS,
    alt_text,
    composition_figure,
    forest_figure,
    pareto_figure,
    rendered,
    saturation_figure,
    save,
    scale_figure,
    slices_figure,
    tiers_figure,
    timeline_figure,
    tradeoff_figure,
    turn_figure,
    words_of,
)
from lab.report.style import chinese_font
from lab.studies.saturation import Point
from lab.studies.scale import ScalePoint

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
LABELS = {arm: {"a": "must", "b": "nice", "c": "unknown"} for arm in ("tier_first_v1", "hybrid", "none")}
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
SCALE = [
    ScalePoint(size, arm, 20.0 + size, hit, None if arm == "house_arm" else hit / 2, 0.4, spent, None)
    for size, hit, spent in ((0, 0.8, 0.5), (25, 0.7, 0.75), (400, 0.6, None))
    for arm in ("tier_first_v1", "house_arm")
]
MEASURES: dict[str, dict[str, float | None]] = {
    "vector": {"Success@6": 0.5, "RepeatRate": 0.4, "InjectedTokens": 100.0},
    "house_arm": {"Success@6": 0.25, "RepeatRate": 0.75, "InjectedTokens": 120.0},
    "none": {"Success@6": 0.0, "RepeatRate": None, "InjectedTokens": 0.0},
    "oracle": {"Success@6": 1.0, "RepeatRate": None, "InjectedTokens": 20.0},
}
SHARES = {
    "first": {"must": 1.0},
    "none": {"must": 0.0, "nice": 0.0},
    "quota": {"must": 0.25, "nice": 0.7, "ignore": 0.05},
}
SLICES = [Slice("type", f"kind {place}", one) for place, one in enumerate(DIFFERENCES[:2])]
PARTS = {"first": [{"must": 0.5, "nice": 0.5}, {"must": 1.0}], "quota": [{}, {"nice": 1.0}]}
STAGES = {"first": {"search": 1.0, "select": 3.0, "own": 0.5}, "none": {"select": 0.1}}
DRAW: dict[str, Callable[[], Figure]] = {
    "saturation": lambda: saturation_figure(POINTS),
    "tradeoff": lambda: tradeoff_figure(MEASURES),
    "forest": lambda: forest_figure(DIFFERENCES, "base", "cand"),
    "composition": lambda: composition_figure(SHARES),
    "timeline": lambda: timeline_figure(TURNS, LABELS),
    "slices": lambda: slices_figure(SLICES, "base", "cand"),
    "pareto": lambda: pareto_figure(MEASURES),
    "tiers": lambda: tiers_figure(PARTS),
    "scale": lambda: scale_figure(SCALE),
    "stages": lambda: turn_figure(STAGES, {"first": "p50 4 ms"}),
}


@cache
def drawn(name: str) -> Figure:
    """Return one of the figures, drawn once."""
    return DRAW[name]()


def _points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


@pytest.mark.parametrize("name", DRAW)
def test_figures_of_equal_data_have_equal_bytes(name: str) -> None:
    first, second = (rendered(DRAW[name](), "svg") for _ in range(2))
    assert first == second
    assert first.startswith(b"<?xml")
    # No date and no program version.
    assert b"<dc:date>" not in first


def test_save_writes_svg_and_png_without_machine_details(tmp_path: Path) -> None:
    first, second = (save(DRAW["forest"](), tmp_path / name) for name in ("first", "second"))
    assert [file.name for file in first] == ["first.svg", "first.png"]
    assert [one.read_bytes() == other.read_bytes() for one, other in zip(first, second, strict=True)] == [True, True]
    assert first[1].read_bytes().startswith(b"\x89PNG")
    assert b"Software" not in first[1].read_bytes()


@pytest.mark.parametrize("name", DRAW)
def test_figures_leave_global_style_unchanged(name: str) -> None:
    before = dict(mpl.rcParams)
    drawn(name)
    assert dict(mpl.rcParams) == before


def test_forest_figure_draws_each_interval() -> None:
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


def test_forest_figure_colours_by_direction_not_sign() -> None:
    """An interval that contains zero is not significant, whatever its mean."""
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


def test_forest_figure_leaves_out_differences_without_interval() -> None:
    axes = forest_figure([*DIFFERENCES[:1], _difference("R@6", 0.1, None, None)], "base", "cand").axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Success@6 (higher is better)"]


@pytest.mark.parametrize("name", DRAW)
def test_figures_are_slides_with_a_finding(name: str) -> None:
    figure = drawn(name)
    width, height = figure.get_size_inches()
    assert width / height == pytest.approx(16 / 9)
    assert len(words_of(figure).title) > 20
    assert alt_text(figure).startswith(words_of(figure).title)
    # Readable in a large room: a title of 20 points, nothing below 12 except the source.
    sizes = [
        text.get_fontsize() for text in figure.findobj(lambda one: hasattr(one, "get_fontsize") and one.get_text())
    ]
    assert max(sizes) >= 20
    assert min(sizes) >= 12


@pytest.mark.parametrize(
    ("some", "said"),
    [
        (DIFFERENCES, "cand is better in Success@6 and RepeatRate and not significantly different in R@6 and nDCG@6"),
        (DIFFERENCES[:1], "cand is better in Success@6"),
        (DIFFERENCES[1:2], "No difference between cand and base is shown"),
        ([_difference("R@6", -0.2, -0.3, -0.1)] * 2, "cand is worse in all 2 primary measures"),
    ],
)
def test_forest_figure_title_states_the_result(some: list[Difference], said: str) -> None:
    assert words_of(forest_figure(some, "base", "cand")).title == said
    beyond = [_difference(name, 0.2, 0.1, 0.3) for name in ("Forbidden@6", "StaleRecall")]
    harmed = forest_figure(some, "base", "cand", beyond=beyond)
    assert words_of(harmed).title == f"{said}; but worse in Forbidden@6 and StaleRecall (not primary)"
    # Every measure that the title names has its mark.
    drawn = " ".join(label.get_text() for label in harmed.axes[0].get_yticklabels())
    assert "Forbidden@6" in drawn
    assert "StaleRecall" in drawn


def test_slices_figure_title_names_the_worst_slice() -> None:
    assert words_of(slices_figure(SLICES, "base", "cand")).title == "Success@6 is not shown to be worse in any slice"
    worse = Slice("type", "rule", _difference("Success@6", -0.4, -0.6, -0.2))
    figure = slices_figure([worse, *SLICES], "base", "cand")
    assert words_of(figure).title == "Success@6 is worse in 1 slice, most of all type = rule"
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()][-1] == "type = rule (10)"


def test_timeline_figure_joins_consecutive_turns() -> None:
    figure = timeline_figure(TURNS, LABELS, "den")
    drawn = [
        {
            (line.get_label(), line.get_color(), round(begin[0] + 0.42, 9), round(end[0] - 0.42, 9), begin[1])
            for line in axes.lines
            for begin, end in zip(_points(line)[::3], _points(line)[1::3], strict=True)
        }
        for axes in figure.axes
    ]
    must, nice, unknown = TIERS["must"], TIERS["nice"], TIERS["unknown"]
    # First turn, last turn, row.
    assert drawn == [
        {("must", must, 1, 2, 0), ("nice", nice, 1, 1, 1)},
        {("unknown", unknown, 1, 2, 0), ("must", must, 2, 2, 1), ("nice", nice, 3, 3, 2)},
    ]
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "tier_first_v1: 2 different memories",
        "hybrid: 3 different memories",
    ]
    # Both panels share a scale, so that fewer memories look fewer.
    assert {axes.get_ylim() for axes in figure.axes} == {(-1, 3)}
    assert alt_text(figure).split(". ")[1].startswith("den: the memories")


def test_timeline_figure_of_an_empty_arm_can_be_drawn() -> None:
    figure = timeline_figure({"none": [[], []], "hybrid": [["a"], []]}, LABELS)
    assert words_of(figure).title == "Over 2 turns none injects 0 different memories, hybrid injects 1 different memory"


def test_tradeoff_figure_draws_arms_with_both_values() -> None:
    axes = tradeoff_figure(MEASURES).axes[0]
    assert [(_points(line), line.get_color()) for line in axes.lines] == [
        ([(0.4, 0.5)], COLOURS["vector"]),
        ([(0.75, 0.25)], "#333333"),
    ]
    assert [text.get_text() for text in axes.texts] == ["house_arm  0.25 / 0.75", "vector  0.50 / 0.40"]


def test_tradeoff_figure_names_do_not_overlap() -> None:
    close = {f"arm{place}": {"Success@6": 0.9 + place / 1000, "RepeatRate": 0.5} for place in range(6)}
    figure = tradeoff_figure(close)
    figure.canvas.draw()
    axes = figure.axes[0]
    heights = sorted(axes.transData.transform((0, text.xyann[1]))[1] for text in axes.texts)
    letters = axes.texts[0].get_fontsize() * figure.dpi / 72
    assert len(heights) == 6
    assert min(above - below for below, above in pairwise(heights)) >= letters


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        ((0.4, 0.75), "vector has the highest hit rate, 50%, and the lowest repeat rate, 40%"),
        ((0.4, 0.3), "vector has the highest hit rate: 50% at 40% repeats; house_arm has the lowest repeat rate: 30%"),
    ],
)
def test_tradeoff_title_names_each_arm_once(repeats: tuple[float, float], said: str) -> None:
    arms = {name: MEASURES[name] | {"RepeatRate": one} for name, one in zip(MEASURES, repeats, strict=False)}
    words = words_of(tradeoff_figure(arms))
    assert words.title == said
    assert words.subtitle == "2 arms. Up and to the left is better."
    assert "oracle" in words_of(tradeoff_figure(arms | {"oracle": {"Success@6": 1.0, "RepeatRate": 0.0}})).subtitle


def test_figures_with_many_arms_show_some_and_count_all() -> None:
    arms = [f"arm_{place:02}" for place in range(38)] + ["tier_first_v1", "none"]
    points = {arm: {"Success@6": place / 40, "RepeatRate": place / 50} for place, arm in enumerate(arms)}
    bars = (
        composition_figure({arm: {"must": 1.0} for arm in arms}),
        turn_figure({arm: {"select": 1.0} for arm in arms}, {}),
    )
    for figure in bars:
        assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == arms[15::-1]
        assert "the first 16 of 40 arms" in words_of(figure).subtitle
    figure = tradeoff_figure(points)
    assert len(figure.axes[0].lines) == 40
    named = [text.get_text().split()[0] for text in figure.axes[0].texts]
    assert (len(named), "tier_first_v1" in named, "none" in named) == (16, True, False)
    assert words_of(figure).subtitle.startswith("40 arms, 16 of them named.")
    # A layout warning would be an error here.
    assert rendered(figure, "svg")


def test_slices_figure_leaves_out_slices_without_interval() -> None:
    lone = Slice("type", "rare", _difference("Success@6", 0.1, None, None))
    assert "all 2 with" in words_of(slices_figure([*SLICES, lone], "base", "cand")).subtitle
    many = [Slice("type", f"kind {place}", DIFFERENCES[0]) for place in range(20)]
    assert "the worst 14 of 20 with" in words_of(slices_figure([*many, lone], "base", "cand")).subtitle


def test_pareto_figure_joins_the_front_without_the_oracle() -> None:
    figure = pareto_figure(MEASURES)
    (front,) = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
    assert _points(front) == [(0.0, 0.0), (100.0, 0.5)]
    assert words_of(figure).title == "vector has the highest hit rate: 50% of the probes for 100 tokens per turn"


def test_tiers_figure_stacks_shares() -> None:
    figure = tiers_figure(PARTS)
    heights = [round(sum(bar.get_height() for bar in axes.patches), 9) for axes in figure.axes]
    assert heights == [2.0, 1.0]
    assert (
        words_of(figure).title == "The must_remember share goes from 50% to 100% under first, from 0% to 0% under quota"
    )


def test_turn_figure_stacks_to_the_mean_turn() -> None:
    figure = turn_figure(STAGES, {"first": "p50 4 ms"})
    assert words_of(figure).title == "first is slowest: 4.5 ms per turn, 67% of it in select"
    assert "p50 4 ms" in [text.get_text().strip() for text in figure.axes[0].texts]


def test_figures_draw_chinese_with_an_installed_font(tmp_path: Path) -> None:
    if chinese_font() is None:
        pytest.skip("no font with Chinese characters is installed")
    svg, _ = save(timeline_figure(TURNS, LABELS, "半山喝茶"), tmp_path / "chinese")
    drawn = svg.read_text("utf-8")
    # One glyph of the fallback font per character.
    fonts = re.findall(r'<path id="([A-Za-z]+)-\S*" d=', drawn)
    assert len([one for one in fonts if not one.startswith("DejaVu") and len(one) > 1]) == len("半山喝茶")
    assert "LastResort" not in drawn


def test_rendered_leaves_missing_glyphs_as_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(style, "chinese_font", lambda: None)
    svg, _ = save(timeline_figure(TURNS, LABELS, "半山喝茶"), tmp_path / "chinese")
    assert re.search(r"<text [^>]*>[^<]*半山喝茶", svg.read_text("utf-8"))
    svg, _ = save(timeline_figure(TURNS, LABELS, "plain"), tmp_path / "plain")
    assert "<text " not in svg.read_text("utf-8")


def test_composition_figure_stacks_shares_to_one() -> None:
    axes = composition_figure(SHARES).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["quota", "first"]
    bars = [(round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width()) for bar in axes.patches]
    rows = [[round(value, 9) for place, *bar in bars if place == row and bar[1] for value in bar] for row in (0, 1)]
    # Where each bar begins, and how long it is.
    assert rows == [[0.0, 0.25, 0.25, 0.7, 0.95, 0.05], [0.0, 1.0]]
    assert [text.get_text() for text in axes.texts] == ["25%", "70%", "100%"]
    assert words_of(composition_figure(SHARES)).title.startswith(
        "must_remember is 100% of the injected memories under first"
    )


def test_scale_figure_draws_each_size_and_leaves_out_missing_values() -> None:
    figure = scale_figure(SCALE, 4)
    lines = [{line.get_label(): _points(line) for line in axes.get_lines()} for axes in figure.axes]
    hits, clean, repeats, times = lines
    assert hits["tier_first_v1"] == hits["house_arm"] == [(0, 0.8), (25, 0.7), (400, 0.6)]
    assert (clean["tier_first_v1"], clean["house_arm"]) == ([(0, 0.4), (25, 0.35), (400, 0.3)], [])
    assert repeats["house_arm"] == [(0, 0.4), (25, 0.4), (400, 0.4)]
    assert times["house_arm"] == [(0, 0.5), (25, 0.75)]
    assert [axes.get_title() for axes in figure.axes][:2] == [
        "hit@4: a relevant memory",
        "CleanHit@4: and nothing misleading",
    ]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["0", "25", "400"]
    assert "From 0 to 400 added memories, the hit rate of tier_first_v1" in alt_text(figure)
    assert "goes from 80% to 60%" in alt_text(figure)


def test_saturation_figure_draws_mean_and_range() -> None:
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
    assert (
        words_of(figure).title
        == "With 10% must_remember, tier_quota_v1 hits on 70% of the probes and tier_first_v1 on 60%"
    )
