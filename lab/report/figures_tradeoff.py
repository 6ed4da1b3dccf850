"""Scatter plots of the arms: hits against repeats, and hits against injected tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from lab.base.formatting import counted
from lab.report import charts
from lab.report.style import MOST_NAMES, SOFT, Words, colour_of, name_at_right, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Means = Mapping[str, Mapping[str, float | None]]
# These arms read the golden set: an upper bound, not an arm to choose.
BOUNDS = ("oracle",)


@styled
def tradeoff_figure(measures: Means, cutoff: int = 6, source: str = "") -> Figure:
    """Draw each arm as a point: hit rate against repeat rate. Up and to the left is better."""
    points = tradeoff_points(measures, cutoff)
    words = Words(
        _reach(points),
        f"{_many(points)}. Up and to the left is better.{_bound(points)}",
        source,
    )
    figure = _points_figure(points, words, "repeat rate (lower is better)", cutoff)
    figure.axes[0].set_xlim(-0.02, 1.02)
    return figure


@styled
def pareto_figure(measures: Means, cutoff: int = 6, source: str = "") -> Figure:
    """Draw each arm as a point: hit rate against injected tokens, with a line through the Pareto front."""
    points = tradeoff_points(measures, cutoff, "InjectedTokens")
    front = front_of(points)
    words = Words(
        _finding(points, "{arm} has the highest hit rate: {hit:.0%} of the probes for {cost:.0f} tokens per turn"),
        f"{_many(points)}. Up and to the left is better. The line is the Pareto front; tokens are "
        f"estimated.{_bound(points)}",
        source,
    )
    figure = _points_figure(points, words, "tokens injected per turn, mean (lower is better)", cutoff)
    axes = figure.axes[0]
    axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
    if front:
        axes.plot(
            [points[arm][1] for arm in front],
            [points[arm][0] for arm in front],
            "--",
            color=SOFT,
            linewidth=1.5,
            zorder=1,
        )
    return figure


def tradeoff_chart(measures: Means, cutoff: int = 6) -> str:
    """Return hit rate against repeat rate for the page."""
    points = tradeoff_points(measures, cutoff)
    return _points_chart(points, charts.shares_axis("repeat rate (lower is better)"), cutoff, "{:.0%} repeats")


def pareto_chart(measures: Means, cutoff: int = 6) -> str:
    """Return hit rate against injected tokens for the page, with a line through the Pareto front."""
    points = tradeoff_points(measures, cutoff, "InjectedTokens")
    costs = [cost for _, cost in points.values()]
    x = charts.nice_axis(0.0, max(costs, default=1.0), "tokens injected per turn, mean (lower is better)")
    front = [points[arm][::-1] for arm in front_of(points)]
    return _points_chart(points, x, cutoff, "{:.0f} tokens", front)


def _points_chart(
    points: Mapping[str, tuple[float, float]],
    x: charts.Axis,
    cutoff: int,
    text: str,
    front: Sequence[charts.Point] = (),
) -> str:
    markers = dict(zip(points, cycle("osD^v<>PX"), strict=False))
    series = [charts.Series("front", front, SOFT, dash="--")] if front else []
    series += [
        charts.Series(arm, [(cost, hit)], colour_of(arm), markers[arm], None) for arm, (hit, cost) in points.items()
    ]
    order = sorted(points, key=lambda arm: (-points[arm][0], points[arm][1]))
    names = charts.legend(
        ((arm, colour_of(arm), markers[arm], None) for arm in order),
        {arm: f"{points[arm][0]:.0%} hits, {text.format(points[arm][1])}" for arm in order},
    )
    panel = charts.plot(series, x, charts.shares_axis(f"hits@{cutoff} (higher is better)"))
    return f'<div class="beside">{panel}{names}</div>'


def tradeoff_points(measures: Means, cutoff: int = 6, cost: str = "RepeatRate") -> dict[str, tuple[float, float]]:
    """Return the hit rate and the repeat rate, or another cost, of the arms that have both."""
    pairs = {arm: (values.get(f"Success@{cutoff}"), values.get(cost)) for arm, values in measures.items()}
    return {arm: (hit, spent) for arm, (hit, spent) in pairs.items() if hit is not None and spent is not None}


def front_of(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Return the arms on the Pareto front by increasing cost; the oracle is an upper bound and excluded."""
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS}
    front = [
        arm
        for arm, (hit, cost) in real.items()
        if not any(a >= hit and b <= cost and (a, b) != (hit, cost) for a, b in real.values())
    ]
    return sorted(front, key=lambda arm: (real[arm][1], arm))


def _points_figure(points: Mapping[str, tuple[float, float]], words: Words, label: str, cutoff: int) -> Figure:
    figure, ((axes,),) = slide(1, 1, words)
    for (arm, (hit, cost)), marker in zip(points.items(), cycle("osD^v<>PX"), strict=False):
        # The policies under study are drawn on top, because good arms lie close together.
        axes.plot(
            cost,
            hit,
            marker,
            markersize=13,
            color=colour_of(arm),
            zorder=3 if arm.startswith("tier_") else 2,
            clip_on=False,
        )
    axes.set(ylim=(-0.02, 1.05), xlabel=label, ylabel=f"hit@{cutoff} (higher is better)")
    spent = "{:.2f}" if all(cost <= 1 for _, cost in points.values()) else "{:.0f}"
    # If there is no room for all names, the policies under study come first, then the Pareto front.
    policies = [arm for arm in points if arm.startswith("tier_")]
    shown = list(dict.fromkeys((*policies, *front_of(points), *points)))[:MOST_NAMES]
    texts = {arm: f"{arm}  {points[arm][0]:.2f} / {spent.format(points[arm][1])}" for arm in points if arm in shown}
    name_at_right(
        axes,
        {text: points[arm][::-1] for arm, text in texts.items()},
        {text: colour_of(arm) for arm, text in texts.items()},
    )
    return figure


def _finding(points: Mapping[str, tuple[float, float]], text: str) -> str:
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS}
    if not real:
        return "No arm has both values"
    arm, (hit, cost) = max(real.items(), key=lambda entry: (entry[1][0], -entry[1][1]))
    return text.format(arm=arm, hit=hit, cost=cost)


def _many(points: Mapping[str, tuple[float, float]]) -> str:
    more = f", {MOST_NAMES} of them named" if len(points) > MOST_NAMES else ""
    return counted(len(points), "arm") + more


def _bound(points: Mapping[str, tuple[float, float]]) -> str:
    return " The oracle injects exactly the relevant memories." if "oracle" in points else ""


def _reach(points: Mapping[str, tuple[float, float]]) -> str:
    real = {arm: point for arm, point in points.items() if arm not in BOUNDS and point[0] > 0}
    if not real:
        return "No arm has a hit"
    best = max(real, key=lambda arm: (real[arm][0], -real[arm][1]))
    least = min(real, key=lambda arm: (real[arm][1], -real[arm][0]))
    if best == least:
        return f"{best} has the highest hit rate, {real[best][0]:.0%}, and the lowest repeat rate, {real[best][1]:.0%}"
    first = f"{best} has the highest hit rate: {real[best][0]:.0%} at {real[best][1]:.0%} repeats"
    return f"{first}; {least} has the lowest repeat rate: {real[least][1]:.0%}"
