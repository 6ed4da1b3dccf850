"""The chart of the history of nightly runs: every measure with its steps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from lab.base.errors import UnusableInput
from lab.nightly.trend import Series
from lab.report.style import COLOURS, styled, subplots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHADES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555")
MOST_DATES = 8


@styled
def trend_figure(series: Sequence[Series]) -> Figure:
    """Draw one row per measure, one column per set and one line per arm, with the levels between steps.

    Nightly runs are equally spaced, because days may be missing.
    """
    if not series:
        raise UnusableInput("no nightly runs to draw: the history has no such series")
    measures = list(dict.fromkeys(line.measure for line in series))
    sets = list(dict.fromkeys(line.set for line in series))
    arms = list(dict.fromkeys(line.arm for line in series))
    free = cycle([shade for shade in SHADES if shade not in {COLOURS.get(arm) for arm in arms}] or SHADES)
    colours = {arm: COLOURS.get(arm) or next(free) for arm in arms}
    figure, grid = subplots(len(measures), len(sets), (1.5 + 5.5 * len(sets), 1.2 + 2.3 * len(measures)))
    for row, measure in enumerate(measures):
        for column, name in enumerate(sets):
            axes = grid[row][column]
            panel = [line for line in series if (line.measure, line.set) == (measure, name)]
            dates = sorted({point.date for line in panel for point in line.points})
            columns = {date: index for index, date in enumerate(dates)}
            for line in panel:
                xs = [columns[point.date] for point in line.points]
                axes.plot(
                    xs,
                    [point.mean for point in line.points],
                    "o",
                    markersize=3,
                    color=colours[line.arm],
                    label=line.arm,
                )
                for first, end in zip(
                    (0, *(s.at for s in line.steps)), (*(s.at for s in line.steps), None), strict=True
                ):
                    level = line.steps[0].before if line.steps else None
                    for step in line.steps:
                        level = step.after if step.at <= first else level
                    if level is not None:
                        axes.hlines(level, xs[first], xs[(end or len(xs)) - 1], color=colours[line.arm], linewidth=1.5)
                    else:
                        axes.plot(xs, [point.mean for point in line.points], color=colours[line.arm], linewidth=1.2)
                for step in line.steps:
                    axes.axvline(xs[step.at] - 0.5, color=colours[line.arm], linewidth=0.9, linestyle=":")
            every = max(1, -(-len(dates) // MOST_DATES))
            axes.set_xticks(range(0, len(dates), every), [date[5:] for date in dates[::every]], fontsize=8)
            axes.set(title=name if row == 0 else "", ylabel=measure if column == 0 else "")
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=min(len(labels), 5))
    figure.suptitle("History of nightly runs; dotted lines: steps", fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, 0.03 + 0.25 / (1.2 + 2.3 * len(measures)), 1, 1))
    return figure
