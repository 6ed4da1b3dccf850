"""The silence chart: false recall against the hit rate over every threshold, one line for each signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report import charts
from lab.report.style import SMALL, SOFT, Words, slide, styled
from lab.studies.silence import Chosen, Point

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
def silence_figure(points: Sequence[Point], source: str = "", chosen: Sequence[Chosen] = ()) -> Figure:
    """Draw a panel for each embedder, language and arm: the curves of all signals, from never to always silent.

    ``chosen`` are the thresholds that were evaluated on other conversations than they were chosen on.
    """
    parts = list(dict.fromkeys(_part(point) for point in points))
    shown = parts[:MOST_PANELS]
    more = f" The first {len(shown)} of {len(parts)} panels." if len(shown) < len(parts) else ""
    words = Words(
        _finding(points, chosen),
        "False recall against hits as the threshold rises, from the upper right (never silent) to the lower left "
        f"(always silent). Down and to the right is better; grey: at most {100 * LOSS:g} points of the hit rate lost. "
        f"All conversations are in every curve, so its best point looks better than a threshold is on others.{more}",
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
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=SMALL, title="signal")
    return figure


def silence_chart(points: Sequence[Point]) -> str:
    """Return the same for the page."""
    panels = []
    for part in list(dict.fromkeys(_part(point) for point in points))[:MOST_PANELS]:
        of_part = [point for point in points if _part(point) == part]
        before = next(point.hit for point in of_part if point.threshold == 0.0)
        series = []
        for signal, (colour, dash, marker) in SIGNS.items():
            curve = [(point.hit, point.false_recall) for point in of_part if point.signal == signal]
            every = max(1, len(curve) // 8)
            series.append(charts.Series(signal, curve, colour, marker, dash, every=every, step=True))
        x = charts.nice_axis(0.0, before or 1.0, "hit rate", share=True)
        y = charts.shares_axis("FalseRecall")
        panels.append(charts.plot(series, x, y, ", ".join(part), shade=(before - LOSS, before)))
    return charts.grid(panels, charts.legend((signal, *sign[::2], sign[1]) for signal, sign in SIGNS.items()))


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


def _finding(points: Sequence[Point], chosen: Sequence[Chosen]) -> str:
    """Return what the best signal of the first panel reaches at a loss of at most ``LOSS``, on what it was chosen on.

    With ``chosen``, also what its threshold does to the conversations that did not choose it.
    """
    first = [point for point in points if _part(point) == _part(points[0])]
    start = next(point for point in first if point.threshold == 0.0)
    kept = [point for point in first if start.hit - point.hit <= LOSS + 1e-9]
    best = min(kept, key=lambda point: (point.false_recall, point.threshold))
    finding = (
        f"Chosen on all probes to lose at most {100 * LOSS:g} points of the hit rate, a threshold lowers FalseRecall "
        f"from {start.false_recall:.0%} to {best.false_recall:.0%} (signal {best.signal})"
    )
    for row in chosen:
        if (_part(row), row.signal, row.rule) == (_part(best), best.signal, "loss"):
            lost = row.hit[0] - row.hit[1]
            finding += (
                f"; chosen on one half, on the other: to {row.false_recall[1]:.0%}, "
                f"{f'losing {100 * lost:.1f} points' if lost > 0 else 'losing nothing'}"
            )
    return finding


def _part(point: Point | Chosen) -> Part:
    return point.embedder, point.language, point.arm
