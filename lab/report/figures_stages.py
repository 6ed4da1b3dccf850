"""Where the time of a turn goes in a replay: the mean of every stage, an arm a bar."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab.formatting import milliseconds
from lab.report.figures_latency import REST, STAGES
from lab.report.style import MIDDLE, MOST_NAMES, Words, of_all, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def turn_figure(means: Mapping[str, Mapping[str, float]], notes: Mapping[str, str], source: str = "") -> Figure:
    """Mean milliseconds of each stage by arm, stacked; ``notes`` are written beside the bars."""
    totals = {arm: sum(stages.values()) for arm, stages in means.items()}
    slow = max(totals, key=lambda arm: (totals[arm], arm), default=None)
    title = "Nothing was timed"
    if slow:
        stage, most = max(means[slow].items(), key=lambda one: (one[1], one[0]))
        share = most / totals[slow] if totals[slow] else 0.0
        title = f"{slow} waits longest: {milliseconds(totals[slow])} ms a turn, {share:.0%} of it {stage}"
    shown = dict(list(means.items())[:MOST_NAMES])
    figure, ((axes,),) = slide(
        1,
        1,
        Words(
            title,
            f"Mean of each stage of a warm turn, {of_all(len(shown), len(totals))}, as the replay ran; "
            "p50 and p95 of the whole. Without embedding the prompt.",
            source,
        ),
    )
    stages = [one for one in STAGES if any(one in own for own in means.values())]
    others = sorted({one for own in means.values() for one in own} - set(stages))
    for place, (arm, own) in enumerate(reversed(shown.items())):
        start = 0.0
        for stage in (*stages, *others):
            width = own.get(stage, 0.0)
            named = None if place else stage if stage in STAGES else "others" if stage == others[0] else None
            axes.barh(place, width, left=start, color=STAGES.get(stage, REST), label=named)
            start += width
        axes.annotate(
            f" {notes.get(arm, '')}",
            (start, place),
            va="center",
            fontsize=MIDDLE - 1,
            xytext=(4, 0),
            textcoords="offset points",
        )
    axes.set_yticks(range(len(shown)), list(shown)[::-1])
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="milliseconds a turn", ylim=(-0.6, max(1, len(shown)) - 0.4))
    axes.set_xlim(0, 1.45 * max([*(totals[arm] for arm in shown), 1e-6]))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    if means:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=5, fontsize=MIDDLE - 2, handlelength=1.0, columnspacing=1.0
        )
    return figure
