"""Figures: what they draw, and equal bytes for equal data."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import pytest

from lab.compare.paired import Difference, Slice
from lab.compare.statistics import Estimate
from lab.report import slides
from lab.report.charts import COLOURS, TIERS, Bars, Chart, Columns, Intervals, Plot, Series, Stripes
from lab.report.figures_arms import (
    composition_chart,
    forest_chart,
    pareto_chart,
    slices_chart,
    tiers_chart,
    timeline_chart,
    tradeoff_chart,
    turn_chart,
)
from lab.report.figures_studies import saturation_chart, scale_chart
from lab.report.slides import MOST_NAMES, chinese_font, draw, rendered, save
from lab.studies.points import SaturationPoint as Point
from lab.studies.points import ScalePoint

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
CHARTS: dict[str, Chart] = {
    "saturation": saturation_chart(POINTS),
    "tradeoff": tradeoff_chart(MEASURES),
    "forest": forest_chart(DIFFERENCES, "base", "cand"),
    "composition": composition_chart(SHARES),
    "timeline": timeline_chart(TURNS, LABELS),
    "slices": slices_chart(SLICES, "base", "cand"),
    "pareto": pareto_chart(MEASURES),
    "tiers": tiers_chart(PARTS),
    "scale": scale_chart(SCALE),
    "stages": turn_chart(STAGES, {"first": "p50 4 ms"}),
}


@cache
def drawn(name: str) -> Figure:
    """Return one of the figures, drawn once."""
    return draw(CHARTS[name])


def _points(line: Any) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)]


def _panel(chart: Chart, place: int = 0) -> Any:
    return chart.panels[place]


@pytest.mark.parametrize("name", CHARTS)
def test_slides_of_equal_data_have_equal_bytes_and_leave_the_style(name: str) -> None:
    second, before = rendered(drawn(name), "svg"), dict(mpl.rcParams)
    first = rendered(draw(CHARTS[name]), "svg")
    assert dict(mpl.rcParams) == before
    assert first == second
    assert first.startswith(b"<?xml")
    # No date and no program version.
    assert b"<dc:date>" not in first


def test_save_writes_svg_and_png_without_machine_details(tmp_path: Path) -> None:
    first, second = (save(draw(CHARTS["forest"]), tmp_path / name) for name in ("first", "second"))
    assert [file.name for file in first] == ["first.svg", "first.png"]
    assert [one.read_bytes() == other.read_bytes() for one, other in zip(first, second, strict=True)] == [True, True]
    assert first[1].read_bytes().startswith(b"\x89PNG")
    assert b"Software" not in first[1].read_bytes()


@pytest.mark.parametrize("name", CHARTS)
def test_figures_are_slides_with_a_finding(name: str) -> None:
    figure, words = drawn(name), CHARTS[name].words
    width, height = figure.get_size_inches()
    assert width / height == pytest.approx(16 / 9)
    assert len(words.title) > 20
    assert words.says.startswith(words.title)
    assert figure.get_label() == words.says
    # Readable in a large room: a title of 20 points, nothing below 12 except the source.
    sizes = [
        text.get_fontsize() for text in figure.findobj(lambda one: hasattr(one, "get_fontsize") and one.get_text())
    ]
    assert max(sizes) >= 20
    assert min(sizes) >= 12


def test_slide_draws_every_kind_of_panel_at_its_place() -> None:
    """The same numbers as on the page: lines and bands, intervals, bars, columns and stripes."""
    first = next(line for line in drawn("saturation").axes[0].lines if line.get_label() == "tier_first_v1")
    assert _points(first) == [(0.1, pytest.approx(0.6)), (0.3, pytest.approx(0.3))]
    corners = {(float(x), float(y)) for x, y in drawn("saturation").axes[0].collections[0].get_paths()[0].vertices}
    assert corners == {(0.1, 0.6), (0.3, 0.2), (0.3, 0.4)}
    forest = drawn("forest").axes[0]
    *marks, _ = forest.lines
    assert [_points(line) for line in marks[1::2]] == [
        [(one.estimate.mean, place)] for place, one in enumerate(DIFFERENCES)
    ]
    assert [_points(line)[0][0] for line in marks[::2]] == [one.estimate.low for one in DIFFERENCES]
    assert forest.get_ylim()[0] > forest.get_ylim()[1]
    bars = [
        (round(bar.get_y() + bar.get_height() / 2), bar.get_x(), bar.get_width())
        for bar in drawn("composition").axes[0].patches
    ]
    rows = [[round(value, 9) for place, *bar in bars if place == row and bar[1] for value in bar] for row in (0, 1)]
    # Where each bar begins, and how long it is.
    assert rows == [[0.0, 1.0], [0.0, 0.25, 0.25, 0.7, 0.95, 0.05]]
    heights = [round(sum(bar.get_height() for bar in axes.patches), 9) for axes in drawn("tiers").axes]
    assert heights == [2.0, 1.0]
    stripes = {line.get_label(): _points(line)[:2] for line in drawn("timeline").axes[0].lines}
    begin = pytest.approx(0.58)
    assert stripes == {"must": [(begin, 0.5), (2.42, 0.5)], "nice": [(begin, 1.5), (1.42, 1.5)]}


def test_slide_names_the_policies_first_if_names_have_no_room() -> None:
    arms = [f"arm_{place:02}" for place in range(38)] + ["tier_first_v1", "none"]
    points = {arm: {"Success@6": place / 40, "RepeatRate": place / 50} for place, arm in enumerate(arms)}
    chart = tradeoff_chart(points)
    assert len(_panel(chart).series) == len(chart.key) == 40
    figure = draw(chart)
    named = [text.get_text().split()[0] for text in figure.legends[0].get_texts()]
    assert (len(named), "tier_first_v1" in named) == (MOST_NAMES, True)
    assert chart.words.subtitle.startswith("40 arms, 16 of them named.")
    # A layout warning would be an error here.
    assert rendered(figure, "svg")


def test_forest_chart_has_each_interval() -> None:
    panel = _panel(forest_chart(DIFFERENCES, "base", "cand"))
    assert isinstance(panel, Intervals)
    assert [(row.low, row.mean, row.high) for row in panel.rows] == [
        (one.estimate.low, one.estimate.mean, one.estimate.high) for one in DIFFERENCES
    ]
    assert panel.heads[0] == "cand minus base"
    assert [f"{row.label} ({row.about})" for row in panel.rows] == [
        "Success@6 (higher is better)",
        "R@6 (higher is better)",
        "RepeatRate (lower is better)",
        "nDCG@6 (higher is better)",
    ]


def test_forest_chart_marks_by_direction_not_sign() -> None:
    """An interval that contains zero is not significant, whatever its mean."""
    decided = [
        _difference("Success@6", 0.1, 0.05, 0.15),
        _difference("R@6", -0.1, -0.15, -0.05),
        _difference("RepeatRate", -0.2, -0.3, -0.1),
        _difference("Forbidden@6", 0.2, 0.1, 0.3),
        _difference("nDCG@6", 0.1, -0.05, 0.25),
    ]
    chart = forest_chart(decided, "base", "cand")
    assert [row.better for row in _panel(chart).rows] == [True, False, True, False, None]
    marks = draw(chart).axes[0].lines[1:-1:2]
    assert [(line.get_color(), line.get_marker()) for line in marks] == [
        (BETTER, "o"),
        (WORSE, "s"),
        (BETTER, "o"),
        (WORSE, "s"),
        (UNDECIDED, "D"),
    ]


@pytest.mark.parametrize(
    ("some", "said"),
    [
        (DIFFERENCES, "cand is better in Success@6 and RepeatRate and not significantly different in R@6 and nDCG@6"),
        (DIFFERENCES[:1], "cand is better in Success@6"),
        (DIFFERENCES[1:2], "No difference between cand and base is shown"),
        ([_difference("R@6", -0.2, -0.3, -0.1)] * 2, "cand is worse in all 2 primary measures"),
    ],
)
def test_forest_chart_title_states_the_result(some: list[Difference], said: str) -> None:
    assert forest_chart(some, "base", "cand").words.title == said
    beyond = [_difference(name, 0.2, 0.1, 0.3) for name in ("Forbidden@6", "StaleRecall")]
    harmed = forest_chart(some, "base", "cand", beyond=beyond)
    assert harmed.words.title == f"{said}; but worse in Forbidden@6 and StaleRecall (not primary)"
    # Every measure that the title names has its mark.
    assert {"Forbidden@6", "StaleRecall"} < {row.label for row in _panel(harmed).rows}


def test_titles_without_intervals_say_so() -> None:
    """A large difference over five conversations is no absence of a difference."""
    few = [replace(_difference(name, 0.574, None, None), conversations=5) for name in ("Success@6", "R@6")]
    words = forest_chart(few, "base", "cand").words
    assert words.title == "5 conversations are too few to show a difference between cand and base"
    assert words.subtitle.startswith("cand minus base, without intervals over 5 conversations.")
    lone = [replace(one, conversations=1) for one in few]
    title = "1 conversation is too few to show a difference between cand and base"
    assert forest_chart(lone, "base", "cand").words.title == title
    # A measure without any difference needs no interval, and hides none.
    mixed = forest_chart([*few, replace(few[0], wins=0, losses=0)], "base", "cand").words
    assert mixed.title == words.title
    # Beside one that has an interval, all is not claimed of those without one.
    mixed = forest_chart([*few, DIFFERENCES[0]], "base", "cand").words
    assert mixed.title == "cand is better in Success@6"
    assert mixed.subtitle.startswith("cand minus base, with 95 % intervals over")
    # Equal arms need no interval.
    equal = [replace(one, wins=0, losses=0) for one in few]
    assert forest_chart(equal, "base", "cand").words.title == "No difference between cand and base is shown"
    words = slices_chart([Slice("type", f"kind {place}", one) for place, one in enumerate(few)], "base", "cand").words
    assert words.title == "Success@6: every slice has too few conversations to show a difference"
    assert "all 2 without intervals;" in words.subtitle


def test_titles_of_one_arm_rank_nothing() -> None:
    one = {"vector": MEASURES["vector"]}
    assert tradeoff_chart(one).words.title == "vector hits on 50% of the probes, at 40% repeats"
    assert pareto_chart(one).words.title == "vector hits on 50% of the probes for 100 tokens per turn"
    assert (
        turn_chart({"first": STAGES["first"]}, {}).words.title
        == "In this replay first takes 4.5 ms a turn, 67% of it in select"
    )
    assert turn_chart(STAGES, {}).words.title == "In this replay first takes most: 4.5 ms a turn, 67% of it in select"


def test_slices_chart_title_counts_slices_that_are_not_drawn() -> None:
    many = [Slice("type", f"kind {place}", _difference("Success@6", -0.4, -0.6, -0.2)) for place in range(20)]
    assert slices_chart(many, "base", "cand").words.title.startswith("Success@6 is worse in 20 slices, ")


WON = "{} must_remember: tier_quota_v1 hits on {} of the probes and tier_first_v1 on {}"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        # Each way of sampling has its own largest difference.
        (None, WON.format("30%", "80%", "50%")),
        # Where the old policy wins, the title says so, in its own clause or as the largest difference.
        ((0.9, 0.7), WON.format("30%", "80%", "50%") + ", but with 10% on 70% and 90%"),
        ((1.0, 0.6), WON.format("10%", "60%", "100%") + ", but with 30% on 80% and 50%"),
    ],
)
def test_saturation_title_tells_both_ways_of_sampling(changed: tuple[float, float] | None, said: str) -> None:
    def both(mode: str, share: float, first: float, quota: float) -> list[Point]:
        hits = {"tier_first_v1": first, "tier_quota_v1": quota}
        return [Point(mode, share, 0, arm, 1.0, hit, 0.1, 0.5) for arm, hit in hits.items()]

    points = [*both("distractors", 0.5, 0.1, 0.6), *both("independent", 0.3, 0.5, 0.8)]
    if changed:
        points += both("independent", 0.1, *changed)
    irrelevant = f"Drawn from irrelevant memories, {WON.format('50%', '60%', '10%')}"
    assert saturation_chart(points).words.title == f"{irrelevant}; drawn from any memories, {said}"


def test_slices_chart_title_names_the_worst_slice() -> None:
    title = "Success@6 is not shown to be worse in any slice"
    assert slices_chart(SLICES, "base", "cand").words.title == title
    worse = Slice("type", "rule", _difference("Success@6", -0.4, -0.6, -0.2))
    chart = slices_chart([worse, *SLICES], "base", "cand")
    assert chart.words.title == "Success@6 is worse in 1 slice: type = rule"
    less = Slice("type", "todo", _difference("Success@6", -0.3, -0.5, -0.1))
    both = slices_chart([worse, less, *SLICES], "base", "cand").words.title
    assert both == "Success@6 is worse in 2 slices, most of all type = rule"
    assert _panel(chart).rows[0][:2] == ("type = rule", "10 probes")


def test_slices_chart_leaves_out_slices_without_interval() -> None:
    lone = Slice("type", "rare", _difference("Success@6", 0.1, None, None))
    assert "all 2 with" in slices_chart([*SLICES, lone], "base", "cand").words.subtitle
    many = [Slice("type", f"kind {place}", DIFFERENCES[0]) for place in range(20)]
    assert "the worst 14 of 20 with" in slices_chart([*many, lone], "base", "cand").words.subtitle


def test_timeline_chart_joins_consecutive_turns() -> None:
    chart = timeline_chart(TURNS, LABELS, "den")
    found = [
        {
            (one.name, one.colour, round(begin + 0.42, 9), round(end - 0.42, 9), at - 0.5)
            for one in panel.series
            if isinstance(one, Stripes)
            for begin, end, at in one.spans
        }
        for panel in chart.panels
        if isinstance(panel, Plot)
    ]
    must, nice, unknown = TIERS["must"], TIERS["nice"], TIERS["unknown"]
    # First turn, last turn, row.
    assert found == [
        {("must", must, 1, 2, 0), ("nice", nice, 1, 1, 1)},
        {("unknown", unknown, 1, 2, 0), ("must", must, 2, 2, 1), ("nice", nice, 3, 3, 2)},
    ]
    assert [panel.title for panel in chart.panels] == [
        "tier_first_v1: 2 different memories",
        "hybrid: 3 different memories",
    ]
    # Both panels share a scale, so that fewer memories look fewer.
    assert _panel(chart, 0).y == _panel(chart, 1).y
    assert chart.words.says.split(". ")[1].startswith("den: the memories")


def test_timeline_chart_colours_a_key_by_arm() -> None:
    labels = {"engine": {"a": "must"}, "verbatim": {"a": "unknown"}}
    chart = timeline_chart({"engine": [["a"]], "verbatim": [["a"]]}, labels)
    assert [[one.name for one in _panel(chart, place).series] for place in (0, 1)] == [["must"], ["unknown"]]


def test_timeline_chart_of_an_empty_arm_can_be_drawn() -> None:
    chart = timeline_chart({"none": [[], []], "hybrid": [["a"], []]}, LABELS)
    assert chart.words.title == "Over 2 turns none injects 0 different memories, hybrid injects 1 different memory"
    assert rendered(draw(chart), "svg")


def test_tradeoff_chart_has_arms_with_both_values() -> None:
    chart = tradeoff_chart(MEASURES)
    assert [(one.points, one.colour) for one in _panel(chart).series] == [
        ([(0.4, 0.5)], COLOURS["vector"]),
        ([(0.75, 0.25)], "#333333"),
    ]
    assert [(key.name, key.text) for key in chart.key] == [
        ("vector", "50% hits, 40% repeats"),
        ("house_arm", "25% hits, 75% repeats"),
    ]


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        ((0.4, 0.75), "vector has the highest hit rate, 50%, and the lowest repeat rate, 40%"),
        ((0.4, 0.3), "vector has the highest hit rate: 50% at 40% repeats; house_arm has the lowest repeat rate: 30%"),
    ],
)
def test_tradeoff_title_names_each_arm_once(repeats: tuple[float, float], said: str) -> None:
    arms = {name: MEASURES[name] | {"RepeatRate": one} for name, one in zip(MEASURES, repeats, strict=False)}
    words = tradeoff_chart(arms).words
    assert words.title == said
    assert words.subtitle == "2 arms. Up and to the left is better."
    assert "oracle" in tradeoff_chart(arms | {"oracle": {"Success@6": 1.0, "RepeatRate": 0.0}}).words.subtitle


def test_charts_of_bars_show_some_arms_and_count_all() -> None:
    arms = [f"arm_{place:02}" for place in range(38)] + ["tier_first_v1", "none"]
    for chart in (
        composition_chart({arm: {"must": 1.0} for arm in arms}),
        turn_chart({arm: {"select": 1.0} for arm in arms}, {}),
    ):
        assert [row.label for row in _panel(chart).rows] == arms[:16]
        assert "the first 16 of 40 arms" in chart.words.subtitle


def test_pareto_chart_joins_the_front_without_the_oracle() -> None:
    chart = pareto_chart(MEASURES)
    (front,) = [one for one in _panel(chart).series if one.dash == "--"]
    assert front.points == [(0.0, 0.0), (100.0, 0.5)]
    assert chart.words.title == "vector has the highest hit rate: 50% of the probes for 100 tokens per turn"


@pytest.mark.parametrize(
    ("shares", "title"),
    [
        (PARTS, "The must_remember share goes from 50% to 100% under first, from 0% to 0% under quota"),
        ({"first": [{}, {}]}, "Nothing was injected"),
        (
            {"first": [{}, {"must": 0.8, "nice": 0.2}, {"must": 1.0}], "quota": [{}]},
            "The must_remember share goes from 80% to 100% under first; nothing was injected under quota",
        ),
    ],
)
def test_tiers_chart_title_leaves_out_empty_parts(shares: dict[str, list[dict[str, float]]], title: str) -> None:
    chart = tiers_chart(shares)
    assert chart.words.title == title
    assert [panel.parts for panel in chart.panels if isinstance(panel, Columns)] == [*shares.values()]


def test_turn_chart_stacks_to_the_mean_turn() -> None:
    chart = turn_chart(STAGES, {"first": "p50 4 ms"})
    assert chart.words.title == "In this replay first takes most: 4.5 ms a turn, 67% of it in select"
    panel = _panel(chart)
    assert isinstance(panel, Bars)
    assert panel.rows[0] == ("first", {"search": 1.0, "select": 3.0, "others": 0.5}, "p50 4 ms", 0.0)
    assert panel.most == 4.5


def test_composition_chart_has_the_arms_that_inject() -> None:
    chart = composition_chart(SHARES)
    assert [(row.label, row.parts) for row in _panel(chart).rows] == [(arm, SHARES[arm]) for arm in ("first", "quota")]
    assert chart.words.title.startswith("must_remember is 100% of the injected memories under first")


def test_scale_chart_has_each_size_and_leaves_out_missing_values() -> None:
    chart = scale_chart(SCALE, 4)
    hits, clean, repeats, times = ({one.name: one.points for one in _panel(chart, at).series} for at in range(4))
    # Equal steps are equal factors.
    places = (0.0, 1.0, pytest.approx(2.204, abs=0.001))
    assert hits["tier_first_v1"] == hits["house_arm"] == [*zip(places, (0.8, 0.7, 0.6), strict=True)]
    assert clean == {"tier_first_v1": [*zip(places, (0.4, 0.35, 0.3), strict=True)]}
    assert [value for _, value in repeats["house_arm"]] == [0.4, 0.4, 0.4]
    assert [10**value for _, value in times["house_arm"]] == pytest.approx([0.5, 0.75])
    assert [panel.title for panel in chart.panels][:2] == [
        "hit@4: a relevant memory",
        "CleanHit@4: and nothing misleading",
    ]
    assert [text for _, text in _panel(chart).x.ticks] == ["0", "25", "400"]
    assert "From 0 to 400 added memories, the hit rate of tier_first_v1" in chart.words.says
    assert "goes from 80% to 60%" in chart.words.says


def test_saturation_chart_has_mean_and_range() -> None:
    chart = saturation_chart(POINTS)
    first = next(one for one in _panel(chart).series if one.name == "tier_first_v1")
    assert first.points == [(0.1, pytest.approx(0.6)), (0.3, pytest.approx(0.3))]
    assert first.band == [(0.1, 0.6, 0.6), (0.3, 0.2, 0.4)]
    assert {(value, dash) for value, _, dash in _panel(chart).lines} == {(0.55, "--"), (1.0, ":")}
    lower = next(one for one in _panel(chart, 3).series if one.name == "tier_quota_v1")
    assert isinstance(lower, Series)
    assert lower.points == [(0.1, 0.8)]
    assert (
        chart.words.title
        == "Drawn from irrelevant memories, 10% must_remember: tier_quota_v1 hits on 70% of the probes "
        "and tier_first_v1 on 60%"
    )


def test_slides_draw_chinese_with_an_installed_font(tmp_path: Path) -> None:
    if chinese_font() is None:
        pytest.skip("no font with Chinese characters is installed")
    svg, _ = save(draw(timeline_chart(TURNS, LABELS, "半山喝茶")), tmp_path / "chinese")
    letters = svg.read_text("utf-8")
    # One glyph of the fallback font per character.
    fonts = re.findall(r'<path id="([A-Za-z]+)-\S*" d=', letters)
    assert len([one for one in fonts if not one.startswith("DejaVu") and len(one) > 1]) == len("半山喝茶")
    assert "LastResort" not in letters


def test_rendered_leaves_missing_glyphs_as_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(slides, "chinese_font", lambda: None)
    svg, _ = save(draw(timeline_chart(TURNS, LABELS, "半山喝茶")), tmp_path / "chinese")
    assert re.search(r"<text [^>]*>[^<]*半山喝茶", svg.read_text("utf-8"))
    svg, _ = save(draw(timeline_chart(TURNS, LABELS, "plain")), tmp_path / "plain")
    assert "<text " not in svg.read_text("utf-8")
