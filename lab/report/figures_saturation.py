"""The saturation chart (seed 000): what each policy recalls as the must_remember share increases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.report import charts
from lab.report.style import COLOURS, MARKERS, SMALL, Words, colour_of, slide, styled
from lab.studies.draws import MODES
from lab.studies.saturation import REFERENCES, Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "distractors": "irrelevant memories",
    "independent": "any memories",
}
PANELS = (
    ("hit", "hit@6: a relevant memory"),
    ("gold_nice", "GoldNice@6: relevant and nice"),
    ("repeat", "repeat rate, last 6 turns"),
)
FIRST, QUOTA = "tier_first_v1", "tier_quota_v1"


@styled
def saturation_figure(points: Sequence[Point], source: str = "") -> Figure:
    """Draw hits, relevant nice memories and repeats against the must_remember share.

    One row per way of choosing the must_remember memories; the band is the range over seeds.
    """
    draws = len({point.seed for point in points if point.seed is not None})
    policies = list(dict.fromkeys(point.arm for point in points if point.share is not None))
    others = "".join(f" Grey: {arm}." for arm in policies if arm not in MARKERS)
    words = Words(
        _finding(points),
        f"Recall as irrelevant (top) or any memories (bottom) become must_remember; mean and range over {draws} "
        "samples. Orange squares: tier_first_v1. Blue circles: tier_quota_v1."
        f"{others} Dashed: no tiers. Dotted: the oracle.",
        source,
    )
    figure, grid = slide(2, 3, words)
    for row, mode in enumerate(MODES):
        for column, (field, title) in enumerate(PANELS):
            axes = grid[row][column]
            for arm in policies:
                selected = [point for point in points if point.mode == mode and point.arm == arm]
                _band(axes, selected, field, arm)
                if row == column == 0:
                    _name_end(axes, _means(selected, field), arm)
            for point in points:
                value = getattr(point, field)
                if point.arm in REFERENCES and value is not None:
                    axes.axhline(
                        value,
                        color=COLOURS[point.arm],
                        linestyle="--" if point.arm == "hybrid" else ":",
                        linewidth=1.6,
                        label=f"{point.arm} (no tiers)" if point.arm == "hybrid" else point.arm,
                    )
            axes.set(xlim=(0, 1), ylim=(0, 1.03))
            axes.set_title(title if row == 0 else "", fontsize=SMALL + 2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
            axes.tick_params(labelsize=SMALL)
            if row == 1:
                axes.set_xlabel("must_remember, share of all memories", fontsize=SMALL + 1)
            if column == 0:
                axes.set_ylabel(TITLES[mode], fontsize=SMALL)
    return figure


def saturation_chart(points: Sequence[Point]) -> str:
    """Return the same for the page: a legend and a panel for each measure and way of choosing."""
    policies = list(dict.fromkeys(point.arm for point in points if point.share is not None))
    references = [arm for arm in REFERENCES if any(point.arm == arm for point in points)]
    dashes = {arm: "--" if arm == "hybrid" else ":" for arm in references}
    x = charts.shares_axis("must_remember, share of all memories")
    panels = []
    for mode in MODES:
        for field, title in PANELS:
            series = []
            for arm in policies:
                selected = [point for point in points if point.mode == mode and point.arm == arm]
                band = [(share, min(values), max(values)) for share, values in _by_share(selected, field).items()]
                means = list(_means(selected, field).items())
                series.append(charts.Series(arm, means, colour_of(arm), MARKERS.get(arm, "^"), band=band))
            lines = [
                (value, COLOURS[point.arm], dashes[point.arm])
                for point in points
                if point.arm in dashes and (value := getattr(point, field)) is not None
            ]
            name = f"{title}; of {TITLES[mode]}"
            panels.append(charts.plot(series, x, charts.shares_axis(), name, dict.fromkeys(lines)))
    return charts.grid(
        panels,
        charts.legend(
            [
                *((arm, colour_of(arm), MARKERS.get(arm, "^"), "-") for arm in policies),
                *((arm, colour_of(arm), "", dashes[arm]) for arm in references),
            ],
            {"hybrid": "no tiers", "oracle": "only what is relevant"},
        ),
    )


def _finding(points: Sequence[Point]) -> str:
    """Return the share at which the policies' hit rates differ most, for irrelevant must_remember memories."""
    means = {
        arm: _means([point for point in points if (point.mode, point.arm) == (MODES[0], arm)], "hit") for arm in MARKERS
    }
    first, quota = means[FIRST], means[QUOTA]
    common = [share for share in first if share in quota]
    if not common:
        return "Recall by policy as the must_remember share increases"
    share = max(common, key=lambda candidate: (abs(quota[candidate] - first[candidate]), -candidate))
    return (
        f"With {share:.0%} must_remember, tier_quota_v1 hits on {quota[share]:.0%} of the probes "
        f"and tier_first_v1 on {first[share]:.0%}"
    )


def _means(points: Sequence[Point], field: str) -> dict[float, float]:
    return {share: sum(values) / len(values) for share, values in _by_share(points, field).items()}


def _by_share(points: Sequence[Point], field: str) -> dict[float, list[float]]:
    by_share: dict[float, list[float]] = {}
    for point in points:
        value = getattr(point, field)
        if value is not None and point.share is not None:
            by_share.setdefault(point.share, []).append(value)
    return dict(sorted(by_share.items()))


def _band(axes: Axes, points: Sequence[Point], field: str, arm: str) -> None:
    by_share = _by_share(points, field)
    means = _means(points, field)
    axes.fill_between(
        list(by_share),
        [min(values) for values in by_share.values()],
        [max(values) for values in by_share.values()],
        color=colour_of(arm),
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        list(means), list(means.values()), color=colour_of(arm), marker=MARKERS.get(arm, "^"), markersize=6, label=arm
    )


def _name_end(axes: Axes, means: Mapping[float, float], arm: str) -> None:
    """Write a policy's name at the end of its line, if there is room."""
    share = max(means, default=1.0)
    if share < 0.6:
        axes.annotate(
            arm, (share, means[share]), xytext=(8, -10), textcoords="offset points", va="center", fontsize=SMALL
        )
