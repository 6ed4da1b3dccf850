"""The charts of a latency measurement: by store size, by stage, and the cost of uncompacted rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from math import log10
from typing import Any

from lab.base.formatting import milliseconds
from lab.report.charts import (
    COLOURS,
    Bar,
    Bars,
    Chart,
    Key,
    Plot,
    Series,
    Words,
    areas,
    powers_axis,
    sizes_axis,
)
from lab.report.figures_arms import STAGES

# Arms without a colour of their own take these in order.
SPARE = ("#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
LINES = {"lancedb": "-", "exact": "--"}
MARKERS = "so^Dv<>PX"
SPENT = {"append, including compaction": "#E69F00", "recall": "#0072B2"}
Turns = Sequence[Mapping[str, Any]]


def size_chart(warm: Turns) -> Chart:
    """Return p50 and p95 of a turn against the number of memories, on logarithmic axes, with intervals as bars."""
    looks = _looks(warm)
    of_turns = {name: [turn for turn in warm if _of(turn, name)] for name in ("p50", "p95")}
    every = [_of(turn, name)["value"] for name, turns in of_turns.items() for turn in turns]
    # A bound of 0 has no place on a logarithmic axis.
    least = min(every, default=1.0) / 10
    x, places = sizes_axis((turn["memories"] for turn in warm), "memories in the store")
    panels, key = [], {}
    for name, title in (("p50", "median turn (p50)"), ("p95", "95th percentile (p95)")):
        series = []
        for store, dash in LINES.items():
            for arm, (colour, marker) in looks.items():
                turns = [turn for turn in of_turns[name] if (turn["store"], turn["arm"]) == (store, arm)]
                if turns:
                    label = arm if store == "lancedb" else f"{arm}, exact store"
                    key[label] = Key(label, colour, marker, dash)
                    at = [(places[turn["memories"]], _of(turn, name)) for turn in turns]
                    series.append(_curve(label, at, colour, marker, dash, least))
        values = [edge for one in series for _, low, high in one.band for edge in (low, high)]
        y = powers_axis([10**value for value in values], "milliseconds per turn")
        panels.append(Plot(series, x, y, title if series else f"{title}: n too small"))
    words = Words("Memory latency of a turn by store size", "Bars are 95 % intervals.")
    return Chart(words, panels, list(key.values()), across=2)


def stages_chart(warm: Turns) -> Chart:
    """Return the mean of each stage as a share of the turn, stacked, one bar per arm and size."""
    shown = [turn for turn in warm if _mean(turn, "total")]
    several = len({turn["store"] for turn in shown}) > 1
    rows = []
    for turn in shown:
        total = _mean(turn, "total")
        parts = {stage: _mean(turn, stage) / total for stage in STAGES}
        parts["the rest"] = max(0.0, 1 - sum(parts.values()))
        where = f", {turn['store']}" if several else ""
        rows.append(Bar(f"{turn['arm']}{where}, {turn['memories']:,}", parts, f"{milliseconds(total)} ms"))
    colours = {**STAGES, "the rest": "#BBBBBB"}
    words = Words("Time of a turn by stage", "Shares of the mean turn, with the mean turn beside each bar.")
    return Chart(words, [Bars(rows, colours, 1.0)], areas(colours))


def compaction_chart(waiting: Turns, cadence: Turns, note: str | None = None) -> Chart:
    """Return a turn over a table with uncompacted rows, and the cost of an append and a recall by cadence.

    ``note`` is a sentence below both.
    """
    turns = [turn for turn in waiting if turn["recall"]["p50"]]
    spent = {turn["waiting"]: turn["compact_ms"] for turn in waiting if turn["compact_ms"]}
    x, places = sizes_axis((turn["waiting"] for turn in waiting), "rows appended one by one since the last compaction")
    every = [*spent.values(), *(turn["recall"]["p50"]["value"] for turn in turns)]
    least = min(every, default=1.0) / 10
    series = []
    for arm, (colour, marker) in _looks([*waiting, *cadence]).items():
        at = [(places[turn["waiting"]], turn["recall"]["p50"]) for turn in turns if turn["arm"] == arm]
        if at:
            series.append(_curve(f"{arm}, a turn (p50)", at, colour, marker, "-", least))
    points = [(places[rows], log10(max(ms, least))) for rows, ms in spent.items()]
    series.append(Series("compacting them all, once", points, "#333333", "X", ":"))
    edges = [edge for one in series for _, *pair in one.band for edge in pair] + [value for _, value in points]
    y = powers_axis([10**value for value in edges], "milliseconds")
    base = waiting[0]["memories"] if waiting else 0
    rows = [
        Bar(
            f"{turn['arm']}, {turn['compact_every']} rows between compactions",
            dict(zip(SPENT, (turn["append"]["mean"] or 0.0, turn["recall"]["mean"] or 0.0), strict=True)),
            f"{milliseconds((turn['append']['mean'] or 0.0) + (turn['recall']['mean'] or 0.0))} ms",
        )
        for turn in cadence
    ]
    most = max((sum(row.parts.values()) for row in rows), default=1.0)
    panels: list[Plot | Bars] = [
        Plot(series, x, y, f"uncompacted rows on top of {base:,} compacted ones"),
        Bars(rows, SPENT, most, title="one append and one recall, mean"),
    ]
    key = [*(Key(one.name, one.colour, one.marker, one.dash) for one in series), *areas(SPENT)]
    return Chart(Words("The cost of uncompacted rows", note or ""), panels, key, across=2)


def _curve(
    label: str, at: Sequence[tuple[float, Mapping[str, float]]], colour: str, marker: str, dash: str, least: float
) -> Series:
    """Return quantiles by place, with their intervals as bars, on a logarithmic axis."""

    def place(value: float) -> float:
        return log10(max(value, least))

    band = [(x, place(value["low"]), place(value["high"])) for x, value in at]
    return Series(label, [(x, place(value["value"])) for x, value in at], colour, marker, dash, band, has_bars=True)


def _looks(turns: Turns) -> dict[str, tuple[str, str]]:
    spare, arms = cycle(SPARE), dict.fromkeys(turn["arm"] for turn in turns)
    return {arm: (COLOURS.get(arm) or next(spare), marker) for arm, marker in zip(arms, cycle(MARKERS), strict=False)}


def _of(turn: Mapping[str, Any], name: str) -> Any:
    return turn["stages"].get("total", {}).get(name)


def _mean(turn: Mapping[str, Any], stage: str) -> float:
    return float(turn["stages"].get(stage, {}).get("mean") or 0.0)
