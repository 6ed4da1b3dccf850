"""Which memory in which turn, arms side by side: a static prefix shows as long horizontal lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lab.formatting import counted
from lab.report.style import MIDDLE, SLIDE, TIERS, Words, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Turns = Sequence[Sequence[str]]


@styled
def timeline_figure(
    selections: Mapping[str, Turns], labels: Mapping[str, str], conversation: str = "", source: str = ""
) -> Figure:
    """Which memory was injected in which turn; one that is injected turn after turn is one long line."""
    from matplotlib.ticker import MaxNLocator

    distinct = {arm: len({key for chosen in turns for key in chosen}) for arm, turns in selections.items()}
    turns_of = {arm: len(turns) for arm, turns in selections.items()}
    words = Words(
        f"Over {counted(max(turns_of.values(), default=0), 'turn')} "
        + ", ".join(f"{arm} shows {_memories(count)}" for arm, count in distinct.items()),
        f"{conversation[:60] + ': ' if conversation else ''}which memory was injected in which recall turn. "
        "A row is a memory, in order of first appearance; a long line is one that came turn after turn.",
        source,
    )
    figure, (row,) = slide(1, len(selections), words, sharey=True)
    height = max(distinct.values(), default=1)
    # A row's share of the panel, in points, and never thinner than can be seen.
    thick = min(11.0, max(1.2, 0.62 * 0.72 * SLIDE[1] * 72 / max(1, height)))
    for axes, (arm, turns) in zip(row, selections.items(), strict=True):
        order = {key: place for place, key in enumerate(dict.fromkeys(key for chosen in turns for key in chosen))}
        for tier, colour in TIERS.items():
            stays = [(*one, order[key]) for key in order if labels.get(key) == tier for one in _stays(turns, key)]
            if stays:
                # One line with gaps, not many lines: a page of many turns stays small.
                across = [x for begin, end, _ in stays for x in (begin - 0.42, end + 0.42, float("nan"))]
                up = [y for _, _, place in stays for y in (place, place, float("nan"))]
                axes.plot(across, up, color=colour, linewidth=thick, solid_capstyle="butt", label=tier)
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
                # Rows may be thinner than a colour can be told by.
                handle.set_linewidth(max(6.0, thick))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
    row[0].set_ylabel("memory, by first appearance")
    return figure


def _stays(turns: Turns, key: str) -> Iterator[tuple[int, int]]:
    """First and last turn, from 1, of every unbroken row of turns with a memory."""
    begin = None
    for turn, chosen in enumerate((*turns, ()), 1):
        if key in chosen:
            begin = begin or turn
        elif begin:
            yield begin, turn - 1
            begin = None


def _memories(count: int) -> str:
    return f"{count} different {'memory' if count == 1 else 'memories'}"
