"""The growth of the stores of arms that capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.report import charts
from lab.report.stored import Growth
from lab.report.style import MIDDLE, MOST_NAMES, Words, of_all, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colour, line and marker of the lines; colour is never the only encoding.
SIGNS = (("#0072B2", "-", "o"), ("#D55E00", "--", "s"), ("#009E73", "-.", "^"), ("#CC79A7", ":", "D"))


@styled
def growth_figure(lines: Sequence[Growth], source: str = "") -> Figure:
    """Draw how many memories each arm holds after each turn of a conversation; means over conversations."""
    shown = lines[:MOST_NAMES]
    most = max(lines, key=lambda line: (line.held[-1], line.arm))
    rank = ", the most" if len(lines) > 1 else ""
    figure, ((axes,),) = slide(
        1,
        1,
        Words(
            f"{most.arm} holds {most.held[-1]:.1f} memories after {len(most.held)} turns{rank}",
            f"Memories held after each turn, {of_all(len(shown), len(lines))}: the mean over conversations; "
            "a shorter one keeps its last number.",
            source,
        ),
    )
    for place, line in enumerate(shown):
        colour, dash, marker = SIGNS[place % len(SIGNS)]
        turns = range(1, len(line.held) + 1)
        step = max(1, len(line.held) // 8)
        axes.plot(turns, line.held, dash, color=colour, marker=marker, markevery=step, linewidth=2, label=line.arm)
    axes.set(xlabel="turns of the conversation", ylabel="memories held", xlim=(0, None), ylim=(0, None))
    axes.legend(fontsize=MIDDLE, loc="upper left")
    return figure


def growth_chart(lines: Sequence[Growth]) -> str:
    """Return the same for the page."""
    shown = lines[:MOST_NAMES]
    x = charts.nice_axis(0, max(len(line.held) for line in shown), "turns of the conversation")
    y = charts.nice_axis(0, max(max(line.held) for line in shown), "memories held")
    signs = {line.arm: SIGNS[place % len(SIGNS)] for place, line in enumerate(shown)}
    series = []
    for line in shown:
        colour, dash, marker = signs[line.arm]
        points = list(enumerate(line.held, 1))
        series.append(charts.Series(line.arm, points, colour, marker, dash, every=max(1, len(points) // 8)))
    names = charts.legend((arm, colour, marker, dash) for arm, (colour, dash, marker) in signs.items())
    return f'<div class="beside">{charts.plot(series, x, y)}{names}</div>'
