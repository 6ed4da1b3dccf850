"""The importance labels of the injected memories: by arm, and over time for the compared arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.report import charts
from lab.report.style import INKS, MIDDLE, MOST_NAMES, TIERS, Words, of_all, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A narrower segment has no room for its number.
NARROW = 0.07
SHARE = "share of the injected memories"


@styled
def composition_figure(shares: Mapping[str, Mapping[str, float]], source: str = "") -> Figure:
    """Draw the share of each importance label among the injected memories, one bar per arm."""
    arms = [arm for arm, values in shares.items() if sum(values.values())]
    most = max(arms, key=lambda arm: shares[arm].get("must", 0.0), default=None)
    least = min(arms, key=lambda arm: shares[arm].get("must", 0.0), default=None)
    title = "Nothing was injected"
    if most and least and most != least:
        title = (
            f"must_remember is {shares[most].get('must', 0):.0%} of the injected memories under {most}, "
            f"{shares[least].get('must', 0):.0%} under {least}"
        )
    elif most:
        title = f"must_remember is {shares[most].get('must', 0):.0%} of the injected memories under {most}"
    shown = arms[:MOST_NAMES]
    subtitle = f"Importance labels of the memories injected at recall turns, {of_all(len(shown), len(arms))}."
    figure, ((axes,),) = slide(1, 1, Words(title, subtitle, source))
    for row, arm in enumerate(reversed(shown)):
        start = 0.0
        for tier, colour in TIERS.items():
            width = shares[arm].get(tier, 0.0)
            axes.barh(row, width, left=start, color=colour)
            if width >= NARROW:
                axes.text(
                    start + width / 2,
                    row,
                    f"{width:.0%}",
                    ha="center",
                    va="center",
                    color=INKS[tier],
                    fontsize=MIDDLE - 1,
                )
            start += width
    _key(axes, len(shown))
    axes.set_yticks(range(len(shown)), list(reversed(shown)))
    axes.tick_params(axis="y", length=0)
    axes.set(xlim=(0, 1), ylim=(-0.6, max(1, len(shown)) - 0.4), xlabel=SHARE)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(visible=False)
    axes.spines["left"].set_visible(False)
    return figure


def composition_chart(shares: Mapping[str, Mapping[str, float]]) -> str:
    """Return the same for the page."""
    rows = [charts.Bar(arm, values) for arm, values in shares.items() if sum(values.values())][:MOST_NAMES]
    return charts.areas(TIERS) + charts.bars(rows, TIERS, 1.0, INKS)


@styled
def tiers_figure(shares: Mapping[str, Sequence[Mapping[str, float]]], source: str = "") -> Figure:
    """Draw the share of each label from the first recall turns to the last, one panel per arm."""
    arms = list(shares)
    title = _changes(shares)
    parts = max((len(by_part) for by_part in shares.values()), default=0)
    subtitle = (
        f"Labels of the injected memories over time: the recall turns of each conversation in {parts} equal parts, "
        "all conversations together. A part without a bar injected nothing."
    )
    figure, (row,) = slide(1, len(arms), Words(title, subtitle, source), sharey=True)
    for axes, (arm, by_part) in zip(row, shares.items(), strict=True):
        bottom = [0.0] * len(by_part)
        for tier, colour in TIERS.items():
            heights = [part.get(tier, 0.0) for part in by_part]
            axes.bar(
                range(len(by_part)), heights, bottom=bottom, width=1.0, color=colour, edgecolor=colour, linewidth=0.3
            )
            bottom = [base + height for base, height in zip(bottom, heights, strict=True)]
        _key(axes, 1)
        axes.set_title(arm, fontsize=MIDDLE, pad=28, loc="left")
        axes.set(xlim=(-0.5, max(1, len(by_part)) - 0.5), ylim=(0, 1), xlabel="from the first recall turn to the last")
        axes.set_xticks([])
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.grid(visible=False)
    row[0].set_ylabel(SHARE)
    return figure


def tiers_chart(shares: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the same for the page."""
    axis = charts.shares_axis(SHARE)
    panels = [
        charts.columns(arm, parts, TIERS, "from the first recall turn to the last", axis)
        for arm, parts in shares.items()
    ]
    return charts.grid(panels, charts.areas(TIERS))


def _changes(shares: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Return the must_remember share in the first and the last part of each arm that injected anything."""
    must = {arm: [part.get("must", 0.0) for part in parts if sum(part.values())] for arm, parts in shares.items()}
    changes = [f"from {found[0]:.0%} to {found[-1]:.0%} under {arm}" for arm, found in must.items() if found]
    nothing = [arm for arm, found in must.items() if not found]
    if not changes:
        return "Nothing was injected"
    silent = f"; nothing was injected under {', '.join(nothing)}" if nothing else ""
    return f"The must_remember share goes {', '.join(changes)}{silent}"


def _key(axes: object, rows: int) -> None:
    """Draw the legend of the labels above a chart."""
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

    if isinstance(axes, Axes) and rows:
        axes.legend(
            handles=[Patch(color=colour, label=tier) for tier, colour in TIERS.items()],
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=len(TIERS),
            fontsize=MIDDLE - 2,
            handlelength=1.0,
            columnspacing=1.0,
            borderaxespad=0.2,
            borderpad=0.1,
        )
