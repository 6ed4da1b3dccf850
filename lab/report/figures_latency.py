"""The charts of a latency measurement: by size, by stage, and what rows that wait for compaction cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

from lab.formatting import milliseconds
from lab.report.style import COLOURS, styled, subplots

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's, for stages; what is left of a turn is grey.
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
# Arms that have no colour of their own take these, in their order.
SPARE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = {"lancedb": "-", "exact": "--"}
MARKERS = "so^Dv<>PX"
Turns = Sequence[Mapping[str, Any]]


@styled
def size_figure(warm: Turns) -> Figure:
    """p50 and p95 of a whole turn against the number of memories, both axes logarithmic, bars for the intervals."""
    figure, (row,) = subplots(1, 2, (11, 4.6))
    colours, arms = _colours(warm), list(dict.fromkeys(one["arm"] for one in warm))
    panels = (("p50", "half of the turns (p50)"), ("p95", "19 of 20 turns (p95)"))
    for axes, (name, title) in zip(row, panels, strict=True):
        for store, line in LINES.items():
            for arm in arms:
                own = [one for one in warm if (one["store"], one["arm"]) == (store, arm) and _of(one, name)]
                label = arm if store == "lancedb" else f"{arm}, exact store"
                mark = MARKERS[arms.index(arm) % len(MARKERS)]
                if own:
                    values = [_of(one, name) for one in own]
                    _curve(axes, [one["memories"] for one in own], values, colours[arm], mark, label, line)
        axes.set(xscale="log", yscale="log", xlabel="memories in the store", title=title)
        sizes = sorted({one["memories"] for one in warm})
        _plain_ticks(axes.xaxis, sizes)
        if sizes:
            axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
        _readable(axes)
        if not axes.containers:
            axes.text(0.5, 0.5, "n too small", transform=axes.transAxes, ha="center", color="#777777")
    row[0].set_ylabel("milliseconds a turn")
    drawn = [axes.get_ylim() for axes in row if axes.containers]
    if drawn:
        for axes in row:
            axes.set_ylim(min(low for low, _ in drawn), max(high for _, high in drawn))
    handles, labels = row[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=3)
    figure.suptitle("What a turn waits for memory, by the size of the store", fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, 0.06 + 0.05 * ((len(labels) - 1) // 3), 1, 1))
    return figure


@styled
def stages_figure(warm: Turns) -> Figure:
    """Where a turn's time goes: the mean of each stage, stacked, one bar an arm and size, as shares of the turn."""
    shown = [one for one in warm if _mean(one, "total")]
    figure, ((axes,),) = subplots(1, 1, (10, 1.6 + 0.36 * max(1, len(shown))))
    several = len({one["store"] for one in shown}) > 1
    names = []
    for place, one in enumerate(shown):
        start, whole = 0.0, _mean(one, "total")
        for stage, colour in STAGES.items():
            width = _mean(one, stage) / whole
            axes.barh(place, width, left=start, color=colour, label=stage if place == 0 else None)
            start += width
        axes.barh(place, max(0.0, 1 - start), left=start, color=REST, label="the rest" if place == 0 else None)
        axes.text(1.01, place, f"{milliseconds(whole)} ms", va="center", fontsize=9)
        where = f", {one['store']}" if several else ""
        names.append(f"{one['arm']}{where}, {one['memories']:,}")
    axes.set_yticks(range(len(shown)), names)
    axes.set(
        xlim=(0, 1), ylim=(max(1, len(shown)) - 0.5, -0.5), xlabel="share of the mean turn (its length to the right)"
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=False)
    figure.suptitle("Where the time of a turn goes", fontsize=13, fontweight="bold")
    if shown:
        figure.legend(loc="lower center", ncols=len(STAGES) + 1, columnspacing=1.2, handlelength=1.2)
    figure.tight_layout(rect=(0, 0.4 / figure.get_figheight(), 1, 1))
    return figure


@styled
def compaction_figure(waiting: Turns, cadence: Turns, note: str | None = None) -> Figure:
    """Left, a turn over a table with rows waiting; right, what an append and a recall cost under each cadence.

    ``note`` is a sentence under both.
    """
    figure, (row,) = subplots(1, 2, (12, 5.2))
    colours = _colours([*waiting, *cadence])
    _waiting_panel(row[0], waiting, colours)
    _cadence_panel(row[1], cadence)
    figure.suptitle("What rows that wait for compaction cost", fontsize=13, fontweight="bold")
    if note:
        figure.text(0.5, 0.01, fill(note, 160), ha="center", va="bottom", fontsize=8)
    figure.tight_layout(rect=(0, 0.06 if note else 0, 1, 1))
    return figure


def _waiting_panel(axes: Axes, waiting: Turns, colours: Mapping[str, str]) -> None:
    arms = list(dict.fromkeys(one["arm"] for one in waiting))
    for arm, marker in zip(arms, cycle(MARKERS), strict=False):
        own = [one for one in waiting if one["arm"] == arm and one["recall"]["p50"]]
        values = [one["recall"]["p50"] for one in own]
        _curve(axes, [one["waiting"] for one in own], values, colours[arm], marker, f"{arm}, a turn (p50)")
    spent = {one["waiting"]: one["compact_ms"] for one in waiting if one["compact_ms"]}
    axes.plot(list(spent), list(spent.values()), "k:x", label="compacting them all, once")
    # Linear up to one row: nothing waiting has a place of its own.
    axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set(yscale="log", xlabel="rows appended one by one since the last compaction", ylabel="milliseconds")
    _plain_ticks(axes.xaxis, sorted({one["waiting"] for one in waiting}))
    _readable(axes)
    base = waiting[0]["memories"] if waiting else 0
    axes.set_title(f"rows waiting on {base:,} compacted ones")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _cadence_panel(axes: Axes, cadence: Turns) -> None:
    cadences = list(dict.fromkeys(one["compact_every"] for one in cadence))
    arms = list(dict.fromkeys(one["arm"] for one in cadence))
    width = 0.8 / max(1, len(arms))
    for number, arm in enumerate(arms):
        for place, every in enumerate(cadences):
            one = next(one for one in cadence if (one["arm"], one["compact_every"]) == (arm, every))
            spot = place + (number - (len(arms) - 1) / 2) * width
            append, recall = one["append"]["mean"] or 0.0, one["recall"]["mean"] or 0.0
            first = place == 0 and number == 0
            axes.bar(spot, append, width * 0.9, color="#E69F00", label="append, compaction in it" if first else None)
            axes.bar(spot, recall, width * 0.9, bottom=append, color="#0072B2", label="recall" if first else None)
            axes.annotate(
                arm,
                (spot, append + recall),
                textcoords="offset points",
                xytext=(0, 3),
                ha="center",
                va="bottom",
                rotation=90,
                fontsize=7,
            )
    axes.set_xticks(range(len(cadences)), [str(one) for one in cadences])
    axes.set(
        xlabel="compacted after so many rows", ylabel="milliseconds a turn, mean", title="one append and one recall"
    )
    axes.margins(y=0.25)
    axes.grid(visible=False, axis="x")
    if cadence:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=9)


def _curve(
    axes: Axes,
    places: Sequence[float],
    values: Turns,
    colour: str,
    marker: str,
    label: str,
    line: str = "-",
) -> None:
    """Quantiles with their intervals as bars, joined by a line."""
    spread = [
        [value["value"] - value["low"] for value in values],
        [value["high"] - value["value"] for value in values],
    ]
    axes.errorbar(
        places,
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
    arms = list(dict.fromkeys(one["arm"] for one in turns))
    spare = cycle(SPARE)
    return {arm: COLOURS.get(arm) or next(spare) for arm in arms}


def _of(one: Mapping[str, Any], name: str) -> Any:
    return one["stages"].get("total", {}).get(name)


def _mean(one: Mapping[str, Any], stage: str) -> float:
    return float(one["stages"].get(stage, {}).get("mean") or 0.0)


def _plain_ticks(axis: Any, values: Sequence[int]) -> None:
    """Ticks at what was measured, written out."""
    axis.set_ticks(values, [f"{value:,}" for value in values])
    axis.set_ticks([], minor=True)


def _readable(axes: Axes) -> None:
    """Milliseconds written out, with a tick at 2 and 5 where the axis spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
