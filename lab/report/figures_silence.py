"""The silence chart: false recall against the hit rate over every threshold, one line for each signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report.style import SMALL, SOFT, Words, slide, styled
from lab.sweep.silence import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colour, line and marker of each signal; colour is never the only encoding.
SIGNS = {
    "top": ("#0072B2", "-", "o"),
    "mean": ("#009E73", "--", "s"),
    "margin": ("#D55E00", "-.", "^"),
    "words": ("#CC79A7", ":", "D"),
}
# Panels that fit on a slide.
MOST_PANELS = 6
LOSS = 0.02
Part = tuple[str, str, str]


@styled
def silence_figure(points: Sequence[Point], source: str = "") -> Figure:
    """Draw a panel for each embedder, language and arm: the curves of all signals, from never to always silent."""
    parts = list(dict.fromkeys(_part(point) for point in points))
    shown = parts[:MOST_PANELS]
    more = f" The first {len(shown)} of {len(parts)} panels." if len(shown) < len(parts) else ""
    words = Words(
        _finding(points),
        "False recall against hits as the threshold rises, from the upper right (never silent) to the lower left "
        f"(always silent). Down and to the right is better; grey: at most {LOSS:g} of the hit rate lost.{more}",
        source,
    )
    columns = min(3, len(shown))
    figure, grid = slide(-(-len(shown) // columns), columns, words)
    for number, axes in enumerate(grid.flat):
        if number >= len(shown):
            axes.set_visible(False)
            continue
        of_part = [point for point in points if _part(point) == shown[number]]
        _panel(axes, of_part)
        axes.set_title(", ".join(shown[number]), fontsize=SMALL + 1)
        if number % columns == 0:
            axes.set_ylabel("FalseRecall")
        axes.set_xlabel("hit rate")
    grid.flat[0].legend(fontsize=SMALL, loc="upper left")
    return figure


def _panel(axes: Axes, points: Sequence[Point]) -> None:
    before = next(point.hit for point in points if point.threshold == 0.0)
    axes.axvspan(before - LOSS, before, color=SOFT, alpha=0.25, linewidth=0)
    for signal, (colour, line, marker) in SIGNS.items():
        curve = [point for point in points if point.signal == signal]
        axes.step(
            [point.hit for point in curve],
            [point.false_recall for point in curve],
            line,
            where="post",
            color=colour,
            marker=marker,
            markevery=max(1, len(curve) // 8),
            markersize=6,
            linewidth=1.8,
            label=signal,
        )
    axes.set(xlim=(0, min(1.0, before * 1.08) or 1.0), ylim=(0, 1.03))


def _finding(points: Sequence[Point]) -> str:
    """Return the lowest false recall that any signal reaches in the first panel at a loss of at most ``LOSS``."""
    first = [point for point in points if _part(point) == _part(points[0])]
    start = next(point for point in first if point.threshold == 0.0)
    kept = [point for point in first if start.hit - point.hit <= LOSS + 1e-9]
    best = min(kept, key=lambda point: (point.false_recall, point.threshold))
    return (
        f"Losing at most {LOSS:g} of the hit rate, silence lowers FalseRecall from {start.false_recall:.2f} to "
        f"{best.false_recall:.2f} (signal {best.signal})"
    )


def _part(point: Point) -> Part:
    return point.embedder, point.language, point.arm
