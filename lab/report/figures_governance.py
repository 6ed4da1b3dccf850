"""The governance chart: labels, hits, repeats and saturation of both policies over the threshold of must_remember."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report.style import COLOURS, MARKERS, SMALL, TIERS, Words, colour_of, slide, styled
from lab.studies.governance import POLICIES, REFERENCES, SATURATED, Point, finding, saturated

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = {REFERENCES[0]: "--", REFERENCES[1]: ":"}
# The parts of a column from the bottom, with the tier whose colour each has.
LABELS = (
    ("must", "must", "must_remember"),
    ("nice", "nice", "nice_to_have"),
    ("unknown", "unknown", "unknown"),
    ("ignored", "ignore", "ignore: never recalled"),
)
PANELS = (
    ("hit", "hit@6"),
    ("repeat", "repeat rate"),
    ("full", "only must_remember"),
)


@styled
def governance_figure(points: Sequence[Point], source: str = "") -> Figure:
    """Draw one row for each grader; its columns are the labels, hits, repeats and saturation by threshold."""
    graders = list(dict.fromkeys(point.grader for point in points if point.grader))
    words = Words(
        finding(points, graders[0]),
        "Each memory is graded; must_remember from the threshold on (x, falling). hit@6: a relevant memory is "
        f"injected. Orange squares: {POLICIES[0]}. Blue circles: {POLICIES[1]}. Dashed: {REFERENCES[0]}, without "
        f"tiers. Dotted: {REFERENCES[1]}. Vertical line: {POLICIES[0]} injects only must_remember in {SATURATED:.0%} "
        "of its recalls.",
        source,
    )
    figure, grid = slide(len(graders), 1 + len(PANELS), words)
    for row, grader in enumerate(graders):
        of_grader = [point for point in points if point.grader == grader]
        _labels(grid[row][0], [point for point in of_grader if point.arm == POLICIES[0]], legend=row == 0)
        grid[row][0].set_ylabel(f"{grader}\nshare of memories", fontsize=SMALL)
        end = saturated(points, grader)
        for column, (field, title) in enumerate(PANELS, 1):
            axes = grid[row][column]
            for arm in POLICIES:
                line = [(point.must_from, getattr(point, field)) for point in of_grader if point.arm == arm]
                axes.plot(*zip(*line, strict=True), color=colour_of(arm), marker=MARKERS[arm], markersize=5, label=arm)
            for point in points:
                value = getattr(point, field)
                if not point.grader and value is not None:
                    axes.axhline(value, color=COLOURS[point.arm], linestyle=LINES[point.arm], linewidth=1.6)
            if end is not None:
                axes.axvline(end.must_from, color=COLOURS[POLICIES[0]], linewidth=1.0)
            axes.set_title(title if row == 0 else "", fontsize=SMALL + 1)
            _frame(axes, of_grader, last=row == len(graders) - 1)
        grid[row][0].set_title("labels" if row == 0 else "", fontsize=SMALL + 1)
        _frame(grid[row][0], of_grader, last=row == len(graders) - 1)
    return figure


def _labels(axes: Axes, points: Sequence[Point], *, legend: bool) -> None:
    """Stack the shares of the labels."""
    axes.stackplot(
        [point.must_from or 0.0 for point in points],
        [[getattr(point, field) for point in points] for field, _, _ in LABELS],
        colors=[TIERS[tier] for _, tier, _ in LABELS],
        labels=[name for _, _, name in LABELS],
        step="post",
    )
    if legend:
        axes.legend(fontsize=SMALL - 2, loc="upper left", facecolor="white", framealpha=0.9, frameon=True)


def _frame(axes: Axes, points: Sequence[Point], *, last: bool) -> None:
    thresholds = [point.must_from for point in points if point.must_from is not None]
    axes.set(xlim=(max(thresholds), min(thresholds)), ylim=(0, 1.03))
    axes.tick_params(labelsize=SMALL)
    if last:
        axes.set_xlabel("threshold", fontsize=SMALL)
