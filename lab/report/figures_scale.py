"""The chart of ``lab study scale``: what each arm recalls as a conversation gets more memories."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from math import ceil, floor, log10
from typing import TYPE_CHECKING, NamedTuple

from lab.report import charts
from lab.report.style import MARKERS, MIDDLE, SMALL, Words, colour_of, slide, styled
from lab.studies.scale import ScalePoint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The markers of other arms.
OTHERS = "D^v<>PX*"


class _Panel(NamedTuple):
    """A chart of one value of the points; ``unit`` is its axis label, blank for a rate from 0 to 1."""

    field: str
    title: str
    unit: str = ""


@styled
def scale_figure(points: Sequence[ScalePoint], cutoff: int = 6, source: str = "") -> Figure:
    """Draw hits, clean hits, repeats and the median time of a turn against the number of added memories."""
    markers = _markers(points)
    words = Words(
        _finding(points, cutoff),
        "Each conversation gets memories of other conversations as distractors; 0 is the conversation alone. Equal "
        "steps are equal factors. A missing point is not available.",
        source,
    )
    figure, grid = slide(2, 2, words)
    for axes, panel in zip(grid.flat, _panels(cutoff), strict=True):
        _draw(axes, points, panel, markers)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=MIDDLE - 2)
    for axes in grid[1]:
        axes.set_xlabel("memories added to each conversation", fontsize=SMALL + 1)
    return figure


def scale_chart(points: Sequence[ScalePoint], cutoff: int = 6) -> str:
    """Return the same for the page; equal steps to the right and up (of times) are equal factors."""
    markers = _markers(points)
    sizes = sorted({point.memories for point in points})
    least = next((size for size in sizes if size), 1)
    places = {size: 0.0 if not size else 1 + log10(size / least) for size in sizes}
    ticks = [(places[size], f"{size:,}") for size in sizes]
    x = charts.Axis(0.0, max(places.values()) or 1.0, ticks, "memories added to each conversation")
    panels = []
    for panel in _panels(cutoff):
        lines = {arm: _line(points, panel.field, arm) for arm in markers}
        values = [value for line in lines.values() for value in line.values()]
        if not values:
            continue
        y, logarithmic = charts.shares_axis(), panel.unit and min(values) > 0
        if panel.unit:
            y = _powers(values) if logarithmic else charts.nice_axis(0.0, max(values), panel.unit)
        series = [
            charts.Series(
                arm,
                [(places[size], log10(value) if logarithmic else value) for size, value in line.items()],
                colour_of(arm),
                markers[arm],
            )
            for arm, line in lines.items()
            if line
        ]
        panels.append(charts.plot(series, x, y, panel.title + (f", {panel.unit}" if panel.unit else "")))
    return charts.grid(panels, charts.legend((arm, colour_of(arm), mark, "-") for arm, mark in markers.items()))


def _powers(values: Sequence[float]) -> charts.Axis:
    """Return a logarithmic axis: positions are powers of ten."""
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return charts.Axis(low, max(high, low + 1), [(power, f"{10.0**power:g}") for power in range(low, high + 1)])


def _markers(points: Sequence[ScalePoint]) -> dict[str, str]:
    rest = cycle(OTHERS)
    return {arm: MARKERS.get(arm) or next(rest) for arm in dict.fromkeys(point.arm for point in points)}


def _panels(cutoff: int) -> tuple[_Panel, ...]:
    return (
        _Panel("hit", f"hit@{cutoff}: a relevant memory"),
        _Panel("clean_hit", f"CleanHit@{cutoff}: and nothing misleading"),
        _Panel("repeat", "repeat rate, last 6 turns"),
        _Panel("p50", "time of a turn, median", "ms"),
    )


def _draw(axes: Axes, points: Sequence[ScalePoint], panel: _Panel, markers: dict[str, str]) -> None:
    sizes = sorted({point.memories for point in points})
    for arm, marker in markers.items():
        drawn = _line(points, panel.field, arm)
        axes.plot(
            list(drawn),
            list(drawn.values()),
            color=colour_of(arm),
            marker=marker,
            markersize=7,
            linewidth=1.8,
            zorder=3 if arm in MARKERS else 2,
            label=arm,
        )
    if not any(_line(points, panel.field, arm) for arm in markers):
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", fontsize=SMALL)
    # 0 and powers share an axis: linear up to the smallest haystack, logarithmic above it.
    least = next((size for size in sizes if size), 1)
    axes.set_xscale("symlog", linthresh=least, linscale=0.5)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_title(panel.title, fontsize=SMALL + 2)
    axes.tick_params(labelsize=SMALL)
    if panel.unit:
        # An arm that ranks every memory takes a hundred times as long as one that searches.
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda *_: "")
        axes.set_ylabel(panel.unit, fontsize=SMALL)
    else:
        axes.set_ylim(-0.02, 1.03)


def _line(points: Sequence[ScalePoint], field: str, arm: str) -> dict[int, float]:
    values = {point.memories: getattr(point, field) for point in points if point.arm == arm}
    return {size: value for size, value in sorted(values.items()) if value is not None}


def _finding(points: Sequence[ScalePoint], cutoff: int) -> str:
    """Return the hit rates of the best arm at the smallest and the largest size."""
    sizes = sorted({point.memories for point in points})
    last = {point.arm: point.hit for point in points if point.memories == sizes[-1] and point.hit is not None}
    if not last:
        return f"hit@{cutoff} by number of memories"
    arm = max(last, key=lambda name: last[name])
    first = _line(points, "hit", arm).get(sizes[0], 0.0)
    if len(sizes) == 1:
        return f"With {sizes[0]:,} memories added, {arm} hits on {last[arm]:.0%} of the probes"
    return (
        f"From {sizes[0]:,} to {sizes[-1]:,} added memories, the hit rate of {arm}, the best arm there, goes from "
        f"{first:.0%} to {last[arm]:.0%}"
    )
