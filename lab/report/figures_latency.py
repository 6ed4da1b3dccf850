"""The charts of a latency measurement: by store size, by stage, and the cost of uncompacted rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

from lab.base.formatting import milliseconds
from lab.report.style import COLOURS, styled, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours for stages; the rest of a turn is grey.
STAGES = {
    "search": "#0072B2",
    "retrieve": "#56B4E9",
    "select": "#D55E00",
    "backbone": "#009E73",
    "budget": "#CC79A7",
    "receipt": "#F0E442",
    "wrap": "#E69F00",
}
REST = "#BBBBBB"
# Arms without a colour of their own take these in order.
SPARE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = {"lancedb": "-", "exact": "--"}
MARKERS = "so^Dv<>PX"
Turns = Sequence[Mapping[str, Any]]


@styled
def size_figure(warm: Turns) -> Figure:
    """Draw p50 and p95 of a turn against the number of memories, on logarithmic axes, with intervals as bars."""
    figure, (row,) = subplots(1, 2, (11, 4.6))
    colours, arms = _colours(warm), list(dict.fromkeys(turn["arm"] for turn in warm))
    panels = (("p50", "median turn (p50)"), ("p95", "95th percentile (p95)"))
    for axes, (name, title) in zip(row, panels, strict=True):
        for store, line in LINES.items():
            for arm in arms:
                selected = [turn for turn in warm if (turn["store"], turn["arm"]) == (store, arm) and _of(turn, name)]
                label = arm if store == "lancedb" else f"{arm}, exact store"
                mark = MARKERS[arms.index(arm) % len(MARKERS)]
                if selected:
                    values = [_of(turn, name) for turn in selected]
                    _curve(axes, [turn["memories"] for turn in selected], values, colours[arm], mark, label, line)
        axes.set(xscale="log", yscale="log", xlabel="memories in the store", title=title)
        sizes = sorted({turn["memories"] for turn in warm})
        _plain_ticks(axes.xaxis, sizes)
        if sizes:
            axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
        _readable(axes)
        if not axes.containers:
            axes.text(0.5, 0.5, "n too small", transform=axes.transAxes, ha="center", color="#777777")
    row[0].set_ylabel("milliseconds per turn")
    drawn = [axes.get_ylim() for axes in row if axes.containers]
    if drawn:
        for axes in row:
            axes.set_ylim(min(low for low, _ in drawn), max(high for _, high in drawn))
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3)
    figure.suptitle("Memory latency of a turn by store size", fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, 0.06 + 0.05 * ((len(labels) - 1) // 3), 1, 1))
    return figure


@styled
def stages_figure(warm: Turns) -> Figure:
    """Draw the mean of each stage as a share of the turn, stacked, one bar per arm and size."""
    shown = [turn for turn in warm if _mean(turn, "total")]
    figure, ((axes,),) = subplots(1, 1, (10, 1.6 + 0.36 * max(1, len(shown))))
    several = len({turn["store"] for turn in shown}) > 1
    names = []
    for row, turn in enumerate(shown):
        start, total = 0.0, _mean(turn, "total")
        for stage, colour in STAGES.items():
            width = _mean(turn, stage) / total
            axes.barh(row, width, left=start, color=colour, label=stage if row == 0 else None)
            start += width
        axes.barh(row, max(0.0, 1 - start), left=start, color=REST, label="the rest" if row == 0 else None)
        axes.text(1.01, row, f"{milliseconds(total)} ms", va="center", fontsize=9)
        where = f", {turn['store']}" if several else ""
        names.append(f"{turn['arm']}{where}, {turn['memories']:,}")
    axes.set_yticks(range(len(shown)), names)
    axes.set(xlim=(0, 1), ylim=(max(1, len(shown)) - 0.5, -0.5), xlabel="share of the mean turn (total on the right)")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=False)
    figure.suptitle("Time of a turn by stage", fontsize=13, fontweight="bold")
    if shown:
        figure.legend(loc="lower center", ncols=len(STAGES) + 1, columnspacing=1.2, handlelength=1.2)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    return figure


@styled
def compaction_figure(waiting: Turns, cadence: Turns, note: str | None = None) -> Figure:
    """Draw, left, a turn over a table with uncompacted rows; right, the cost of an append and a recall by cadence.

    ``note`` is a sentence below both.
    """
    figure, (row,) = subplots(1, 2, (12, 5.2))
    colours = _colours([*waiting, *cadence])
    _waiting_panel(row[0], waiting, colours)
    _cadence_panel(row[1], cadence)
    figure.suptitle("The cost of uncompacted rows", fontsize=13, fontweight="bold")
    if note:
        figure.text(0.5, 0.01, fill(note, 160), ha="center", va="bottom", fontsize=8)
    figure.tight_layout(rect=(0, 0.06 if note else 0, 1, 1))
    return figure


def _waiting_panel(axes: Axes, waiting: Turns, colours: Mapping[str, str]) -> None:
    arms = list(dict.fromkeys(turn["arm"] for turn in waiting))
    for arm, marker in zip(arms, cycle(MARKERS), strict=False):
        selected = [turn for turn in waiting if turn["arm"] == arm and turn["recall"]["p50"]]
        values = [turn["recall"]["p50"] for turn in selected]
        _curve(axes, [turn["waiting"] for turn in selected], values, colours[arm], marker, f"{arm}, a turn (p50)")
    spent = {turn["waiting"]: turn["compact_ms"] for turn in waiting if turn["compact_ms"]}
    axes.plot(list(spent), list(spent.values()), "k:x", label="compacting them all, once")
    # Linear up to one row, so that zero rows can be shown.
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set(yscale="log", xlabel="rows appended one by one since the last compaction", ylabel="milliseconds")
    _plain_ticks(axes.xaxis, sorted({turn["waiting"] for turn in waiting}))
    _readable(axes)
    base = waiting[0]["memories"] if waiting else 0
    axes.set_title(f"uncompacted rows on top of {base:,} compacted ones")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _cadence_panel(axes: Axes, cadence: Turns) -> None:
    cadences = list(dict.fromkeys(turn["compact_every"] for turn in cadence))
    arms = list(dict.fromkeys(turn["arm"] for turn in cadence))
    width = 0.8 / max(1, len(arms))
    for number, arm in enumerate(arms):
        for column, every in enumerate(cadences):
            turn = next(turn for turn in cadence if (turn["arm"], turn["compact_every"]) == (arm, every))
            x = column + (number - (len(arms) - 1) / 2) * width
            append, recall = turn["append"]["mean"] or 0.0, turn["recall"]["mean"] or 0.0
            first = column == 0 and number == 0
            axes.bar(x, append, width * 0.9, color="#E69F00", label="append, including compaction" if first else None)
            axes.bar(x, recall, width * 0.9, bottom=append, color="#0072B2", label="recall" if first else None)
            axes.annotate(
                arm,
                (x, append + recall),
                textcoords="offset points",
                xytext=(0, 3),
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=7,
            )
    axes.set_xticks(range(len(cadences)), [str(turn) for turn in cadences])
    axes.set(xlabel="rows between compactions", ylabel="milliseconds per turn, mean", title="one append and one recall")
    axes.margins(y=0.25)
    axes.grid(visible=False, axis="x")
    if cadence:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _curve(
    axes: Axes,
    positions: Sequence[float],
    values: Turns,
    colour: str,
    marker: str,
    label: str,
    line: str = "-",
) -> None:
    """Draw quantiles with their intervals as bars, joined by a line."""
    spread = [
        [value["value"] - value["low"] for value in values],
        [value["high"] - value["value"] for value in values],
    ]
    axes.errorbar(
        positions,
        [value["value"] for value in values],
        spread,
        color=colour,
        linestyle=line,
        marker=marker,
        markersize=5,
        capsize=3,
        label=label,
    )


def _colours(turns: Turns) -> dict[str, str]:
    arms = list(dict.fromkeys(turn["arm"] for turn in turns))
    spare = cycle(SPARE)
    return {arm: COLOURS.get(arm) or next(spare) for arm in arms}


def _of(turn: Mapping[str, Any], name: str) -> Any:
    return turn["stages"].get("total", {}).get(name)


def _mean(turn: Mapping[str, Any], stage: str) -> float:
    return float(turn["stages"].get(stage, {}).get("mean") or 0.0)


def _plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Set ticks at the measured values, as plain numbers."""
    axis.set_ticks(values, [f"{value:,}" for value in values])
    axis.set_ticks([], minor=True)


def _readable(axes: Axes) -> None:
    """Write milliseconds as plain numbers, with ticks at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
