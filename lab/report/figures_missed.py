"""The waterfall of missed relevant memories: from all relevant ones, cause by cause, to those in the prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import ceil
from typing import TYPE_CHECKING

from lab.base.formatting import counted
from lab.replay.missed import FAILED, UNKNOWN, Counts
from lab.report import charts
from lab.report.style import INK, MIDDLE, SMALL, SOFT, Words, slide, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ARMS, IN_A_ROW = 4, 2
# The two policies and the control of policy rollout are shown first.
FIRST = ("tier_first_v1", "tier_quota_v1", "hybrid")
# The causes in the words of the chart.
NAMES = {
    "unborn": "not yet created",
    "forgotten": "deleted",
    FAILED: "recall failed",
    "trivial": "prompt skipped as trivial",
    "scope": "in another scope",
    "label": "label of no tier",
    "silent": "recall kept silent",
    "nothing": "arm injects nothing",
    "fault": "injected fault",
    "depth": "not found by the search",
    "todo": "stale TODO",
    "tier": "tier not searched",
    "duplicate": "repeats the Working Set",
    "repeat": "lowered as a repeat",
    "decay": "lowered by decay",
    "kind": "of a kind never injected",
    "superseded": "superseded by another",
    "trust": "quarantined",
    "merged": "an equal text is in the prompt",
    "slot": "no slot left",
    "cut": "cut in the Working Set",
    "snippet": "beyond the part shown",
    "score": "score too low",
    "budget": "dropped by the budget",
    UNKNOWN: "not explained",
}
LOST, ITEMS, PINNED = "#D55E00", "#0072B2", "#56B4E9"


@styled
def missed_figure(counts: Mapping[str, Counts], source: str = "", first: Sequence[str] = ()) -> Figure:
    """Draw one panel for each of four arms: bars from all relevant memories down to those in the prompt.

    ``first`` are the arms to show before others, such as those that a report compares.
    """
    arms, order = _shown(counts, first)
    columns = min(IN_A_ROW, len(arms))
    words = Words(
        _finding(counts, arms),
        f"All relevant memories of all probes, minus those missed for each cause, are those in the prompt; "
        f"{counted(len(arms), 'arm') if len(arms) == len(counts) else f'{len(arms)} of {len(counts)} arms'}.",
        source,
    )
    figure, grid = slide(ceil(len(arms) / columns), columns, words, sharex=True, sharey=True)
    for axes, arm in zip(grid.flat, arms, strict=False):
        _panel(axes, arm, counts[arm], order)
    for axes in list(grid.flat)[len(arms) :]:
        axes.set_visible(False)
    return figure


def missed_chart(counts: Mapping[str, Counts], first: Sequence[str] = ()) -> str:
    """Return the same for the page: one table of bars for each arm."""
    arms, order = _shown(counts, first)
    colours = {"missed": LOST, "injected": ITEMS, "pinned": PINNED, "relevant": SOFT}
    panels = []
    for arm in arms:
        count = counts[arm]
        rows, left = [charts.Bar("relevant", {"relevant": count.relevant}, f"{count.relevant}")], count.relevant
        for cause in order:
            if missed := count.causes.get(cause, 0):
                left -= missed
                rows.append(charts.Bar(NAMES[cause], {"missed": missed}, f"{missed}", left))
        parts = {"injected": count.injected, "pinned": count.pinned}
        rows.append(charts.Bar("in the prompt", parts, f"{count.injected + count.pinned}"))
        bars = charts.bars(rows, colours, count.relevant)
        panels.append(f'<div class="panel"><p class="panel-title">{escape(arm)}</p>{bars}</div>')
    return charts.grid(panels, charts.areas(colours))


def _shown(counts: Mapping[str, Counts], first: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arms to show, and their causes, the most frequent first."""
    known = [arm for arm in dict.fromkeys((*first, *FIRST, *counts)) if arm in counts]
    # An arm that injects nothing has one bar, so it is shown only if there is room.
    arms = sorted(known, key=lambda arm: "nothing" in counts[arm].causes)[:MOST_ARMS]
    causes = list(dict.fromkeys(cause for arm in arms for cause in counts[arm].causes))
    return arms, sorted(causes, key=lambda cause: -sum(counts[arm].causes.get(cause, 0) for arm in arms))


def _finding(counts: Mapping[str, Counts], arms: list[str]) -> str:
    parts = []
    for arm in arms[:2]:
        count = counts[arm]
        worst = max(count.causes, key=lambda cause: count.causes[cause], default=None)
        share = f"{arm} misses {count.missed / count.relevant:.0%} of the relevant memories"
        why = f", most often: {NAMES[worst]} ({count.causes[worst] / count.missed:.0%})" if worst else ""
        parts.append(share + why)
    return "; ".join(parts)


def _panel(axes: Axes, arm: str, count: Counts, order: list[str]) -> None:
    bars = [("relevant", 0, count.relevant, SOFT)]
    left = count.relevant
    for cause in order:
        width = count.causes.get(cause, 0)
        left -= width
        bars.append((NAMES[cause], left, width, LOST))
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
