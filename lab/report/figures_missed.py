"""The waterfall of missed relevant memories: from all relevant ones, cause by cause, to those in the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING

from lab.replay.missed import Counts
from lab.report.style import INK, MIDDLE, SMALL, SOFT, Words, of_all, slide, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ARMS, IN_A_ROW = 4, 2
LOST, ITEMS, PINNED = "#D55E00", "#0072B2", "#56B4E9"


@styled
def missed_figure(counts: Mapping[str, Counts], source: str = "") -> Figure:
    """Draw one panel for each of the first arms: bars from all relevant memories down to those in the prompt."""
    arms = list(counts)[:MOST_ARMS]
    causes = list(next(iter(counts.values())).causes)
    for arm in arms:
        causes += [cause for cause in counts[arm].causes if cause not in causes]
    order = sorted(causes, key=lambda cause: -sum(counts[arm].causes.get(cause, 0) for arm in arms))
    columns = min(IN_A_ROW, len(arms))
    words = Words(
        _finding(counts, arms),
        f"All relevant memories of all probes, minus those missed for each cause, are those in the prompt; "
        f"{of_all(len(arms), len(counts))}.",
        source,
    )
    figure, grid = slide(ceil(len(arms) / columns), columns, words, sharex=True, sharey=True)
    for axes, arm in zip(grid.flat, arms, strict=False):
        _panel(axes, arm, counts[arm], order)
    for axes in list(grid.flat)[len(arms) :]:
        axes.set_visible(False)
    return figure


def _finding(counts: Mapping[str, Counts], arms: list[str]) -> str:
    parts = []
    for arm in arms[:2]:
        count = counts[arm]
        worst = max(count.causes, key=lambda cause: count.causes[cause], default=None)
        share = f"{arm} misses {count.missed / count.relevant:.0%} of the relevant memories"
        parts.append(share + (f", {count.causes[worst] / count.missed:.0%} of them by {worst}" if worst else ""))
    return "; ".join(parts)


def _panel(axes: Axes, arm: str, count: Counts, order: list[str]) -> None:
    bars = [("relevant", 0, count.relevant, SOFT)]
    left = count.relevant
    for cause in order:
        width = count.causes.get(cause, 0)
        left -= width
        bars.append((cause, left, width, LOST))
    bars.append(("in the prompt", 0, count.injected, ITEMS))
    for row, (_, start, width, colour) in enumerate(bars):
        axes.barh(row, width, left=start, color=colour, height=0.72)
    axes.barh(len(bars) - 1, count.pinned, left=count.injected, color=PINNED, height=0.72)
    for row, (name, start, width, _) in enumerate(bars):
        number = count.injected + count.pinned if name == "in the prompt" else width
        end = start + number if name in ("relevant", "in the prompt") else start + width
        text = f"{number}" + (f" ({count.pinned} pinned)" if name == "in the prompt" and count.pinned else "")
        axes.text(min(end, count.relevant) + 0.01 * count.relevant, row, text, va="center", fontsize=SMALL, color=INK)
    axes.set_yticks(range(len(bars)), [name for name, *_ in bars])
    axes.tick_params(axis="y", labelsize=SMALL, length=0)
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlim(0, count.relevant * 1.12)
    axes.set_title(arm, fontsize=MIDDLE, loc="left")
    axes.grid(visible=False, axis="y")
