"""Timelines of injected memories, arms side by side: a memory that is always injected is one long line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.base.formatting import counted
from lab.report import charts
from lab.report.style import MIDDLE, SLIDE, TIERS, Words, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Turns = Sequence[Sequence[str]]


@styled
def timeline_figure(
    selections: Mapping[str, Turns], labels: Mapping[str, Mapping[str, str]], conversation: str = "", source: str = ""
) -> Figure:
    """Draw which memory was injected in which turn; one injected in consecutive turns is one long line."""
    from matplotlib.ticker import MaxNLocator

    distinct = {arm: len({key for chosen in turns for key in chosen}) for arm, turns in selections.items()}
    turns_of = {arm: len(turns) for arm, turns in selections.items()}
    words = Words(
        f"Over {counted(max(turns_of.values(), default=0), 'turn')} "
        + ", ".join(f"{arm} injects {_memories(count)}" for arm, count in distinct.items()),
        f"{conversation[:60] + ': ' if conversation else ''}the memories injected in each recall turn. "
        "Rows are memories in order of first appearance; a long line is a memory injected in consecutive turns.",
        source,
    )
    figure, (row,) = slide(1, len(selections), words, sharey=True)
    height = max(distinct.values(), default=1)
    # The height of a row in points, and never too thin to be visible.
    thick = min(11.0, max(1.2, 0.62 * 0.72 * SLIDE[1] * 72 / max(1, height)))
    for axes, (arm, turns) in zip(row, selections.items(), strict=True):
        order = _order(turns)
        for tier, colour in TIERS.items():
            spans = [
                (*span, order[key]) for key in order if labels[arm].get(key) == tier for span in _spans(turns, key)
            ]
            if spans:
                # One line with gaps instead of many lines keeps the page small.
                xs = [x for begin, end, _ in spans for x in (begin - 0.42, end + 0.42, float("nan"))]
                ys = [y for _, _, index in spans for y in (index, index, float("nan"))]
                axes.plot(xs, ys, color=colour, linewidth=thick, solid_capstyle="butt", label=tier)
        axes.set_title(f"{arm}: {_memories(len(order))}", fontsize=MIDDLE, loc="left")
        axes.set(xlabel="recall turn", xlim=(0.4, max(turns_of[arm], 1) + 0.6), ylim=(-1, height))
        if order:
            key = axes.legend(
                loc="upper left",
                fontsize=MIDDLE - 2,
                handlelength=1.0,
                labelspacing=0.2,
                borderpad=0.2,
                frameon=True,
                framealpha=0.8,
                edgecolor="none",
            )
            for handle in key.get_lines():
                # Rows may be too thin to see their colour.
                handle.set_linewidth(max(6.0, thick))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    row[0].set_ylabel("memory, by first appearance")
    return figure


def timeline_chart(selections: Mapping[str, Turns], labels: Mapping[str, Mapping[str, str]]) -> str:
    """Return the same for the page."""
    orders = {arm: _order(turns) for arm, turns in selections.items()}
    height = max(map(len, orders.values()), default=1) or 1
    thick = min(8.0, max(1.6, 0.7 * charts.HEIGHT / height))
    y = charts.nice_axis(0, height, "memory, by first appearance")
    panels = []
    for arm, turns in selections.items():
        order = orders[arm]
        stripes = [
            charts.Stripes(
                tier,
                [
                    (begin - 0.42, end + 0.42, order[key] + 0.5)
                    for key in order
                    if labels[arm].get(key) == tier
                    for begin, end in _spans(turns, key)
                ],
                colour,
                thick,
            )
            for tier, colour in TIERS.items()
        ]
        x = charts.nice_axis(0, max(len(turns), 1), "recall turn")
        panels.append(charts.plot([one for one in stripes if one.spans], x, y, f"{arm}: {_memories(len(order))}"))
    return charts.grid(panels, charts.areas(TIERS))


def _order(turns: Turns) -> dict[str, int]:
    """Return the row of each memory: its place in the order of first appearance."""
    return {key: index for index, key in enumerate(dict.fromkeys(key for chosen in turns for key in chosen))}


def _spans(turns: Turns, key: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last turn, from 1, of every run of consecutive turns with a memory."""
    begin = None
    for turn, chosen in enumerate((*turns, ()), 1):
        if key in chosen:
            begin = begin or turn
        elif begin:
            yield begin, turn - 1
            begin = None


def _memories(count: int) -> str:
    return f"{count} different {'memory' if count == 1 else 'memories'}"
