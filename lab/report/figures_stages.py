"""The time of a turn in a replay: the mean of every stage, one bar per arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lab.base.formatting import milliseconds
from lab.report import charts
from lab.report.figures_latency import REST, STAGES
from lab.report.style import MIDDLE, MOST_NAMES, Words, of_all, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def turn_figure(means: Mapping[str, Mapping[str, float]], notes: Mapping[str, str], source: str = "") -> Figure:
    """Draw mean milliseconds of each stage by arm, stacked, with ``notes`` beside the bars."""
    totals = {arm: sum(stages.values()) for arm, stages in means.items()}
    slow = max(totals, key=lambda arm: (totals[arm], arm), default=None)
    title = "No timings"
    if slow:
        stage, most = max(means[slow].items(), key=lambda entry: (entry[1], entry[0]))
        share = most / totals[slow] if totals[slow] else 0.0
        title = f"{slow} is slowest: {milliseconds(totals[slow])} ms per turn, {share:.0%} of it in {stage}"
    shown = dict(list(means.items())[:MOST_NAMES])
    figure, ((axes,),) = slide(
        1,
        1,
        Words(
            title,
            f"Mean of each stage of a warm turn, {of_all(len(shown), len(totals))}, measured in the replay; "
            "p50 and p95 of the turn. The time to embed the prompt is not included.",
            source,
        ),
    )
    stages = [stage for stage in STAGES if any(stage in by_stage for by_stage in means.values())]
    others = sorted({stage for by_stage in means.values() for stage in by_stage} - set(stages))
    for row, (arm, by_stage) in enumerate(reversed(shown.items())):
        start = 0.0
        for stage in (*stages, *others):
            width = by_stage.get(stage, 0.0)
            named = None if row else stage if stage in STAGES else "others" if stage == others[0] else None
            axes.barh(row, width, left=start, color=STAGES.get(stage, REST), label=named)
            start += width
        axes.annotate(
            f" {notes.get(arm, '')}",
            (start, row),
            va="center",
            fontsize=MIDDLE - 1,
            xytext=(4, 0),
            textcoords="offset points",
        )
    axes.set_yticks(range(len(shown)), list(shown)[::-1])
    axes.tick_params(axis="y", length=0)
    axes.set(xlabel="milliseconds per turn", ylim=(-0.6, max(1, len(shown)) - 0.4))
    axes.set_xlim(0, 1.45 * max([*(totals[arm] for arm in shown), 1e-6]))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    if means:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1), ncols=5, fontsize=MIDDLE - 2, handlelength=1.0, columnspacing=1.0
        )
    return figure


def turn_chart(means: Mapping[str, Mapping[str, float]], notes: Mapping[str, str]) -> str:
    """Return the same for the page."""
    shown = dict(list(means.items())[:MOST_NAMES])
    present = {stage for by_stage in shown.values() for stage in by_stage}
    colours = {stage: colour for stage, colour in STAGES.items() if stage in present}
    others = sorted(present - set(colours))
    rows = []
    for arm, by_stage in shown.items():
        parts = {stage: by_stage[stage] for stage in colours if stage in by_stage}
        rest = sum(by_stage[stage] for stage in others if stage in by_stage)
        rows.append(charts.Bar(arm, parts | ({"others": rest} if rest else {}), notes.get(arm, "")))
    colours |= {"others": REST} if others else {}
    most = max((sum(row.parts.values()) for row in rows), default=1.0)
    return charts.areas(colours) + charts.bars(rows, colours, most)
