"""The figures of a report: one entry for each in :data:`FIGURES`, with its section and caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from lab.base.formatting import milliseconds
from lab.compare.paired import Comparison, Slice
from lab.measures.latency import Stage, stages
from lab.measures.model import TOTAL
from lab.replay.explain import FILE as MISSED
from lab.replay.explain import counts_in
from lab.report import figures_arms, figures_studies
from lab.report.charts import Chart
from lab.report.comparison import shown, worse
from lab.report.material import Material, ReportData, ReportFigure, busiest, growth, tier_shares, timeline
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.studies.points import SATURATION, SCALE, SILENCE, SaturationPoint, ScalePoint, SilencePoint

P = TypeVar("P")
Draw = Callable[[ReportData], Sequence[Chart]]
# How many conversations get a timeline.
SHOWN_TIMELINES = 4


class Drawing(NamedTuple):
    """A figure of the report, and its chart of a run."""

    figure: ReportFigure
    chart: Chart


def gather(run: RunDirectory) -> Material:
    """Read the data of a run that figures and tables share."""
    return Material(tier_shares(run), stages(run))


def drawings(
    run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None, material: Material | None = None
) -> dict[str, Drawing]:
    """Return the figures that a run has data for, by file name without suffix, in the order of the page."""
    data = ReportData(run, summary, comparison, material or gather(run))
    return {
        figure.name if number == 1 else f"{figure.name}-{number}": Drawing(figure, chart.of(data.source))
        for figure in FIGURES
        for number, chart in enumerate(figure.draw(data), 1)
    }


def decisive_slices(comparison: Comparison) -> list[Slice]:
    """Return the slices of the first primary measure, worst first."""
    first = next((part.difference.measure for part in comparison.slices), None)
    return [part for part in comparison.slices if part.difference.measure == first]


def _forest(data: ReportData) -> list[Chart]:
    comparison = data.comparison
    primary = shown(comparison) if comparison else []
    if not comparison or not any(difference.conversations > 1 for difference in primary):
        return []
    arms = comparison.baseline, comparison.candidate
    return [figures_arms.forest_chart(primary, *arms, beyond=worse(comparison))]


def _slices(data: ReportData) -> list[Chart]:
    comparison = data.comparison
    sliced = decisive_slices(comparison) if comparison else []
    if not comparison or not any(part.difference.conversations > 1 for part in sliced):
        return []
    return [figures_arms.slices_chart(sliced, comparison.baseline, comparison.candidate)]


def _of_points(name: str, kind: type[P], chart: Callable[[list[P], ReportData], Chart]) -> Draw:
    """Return what draws a chart of the points that another command wrote into the run, if it did."""

    def draw(data: ReportData) -> list[Chart]:
        path = data.run.path / name
        points = [kind(**row) for row in read_table(path).to_pylist()] if path.exists() else []
        return [chart(points, data)] if points else []

    return draw


def _missed(data: ReportData) -> list[Chart]:
    path = data.run.path / MISSED
    if not path.exists():
        return []
    return [figures_arms.missed_chart(counts_in(read_table(path)), first=data.pair)]


def _growth(data: ReportData) -> list[Chart]:
    lines = growth(data.run)
    return [figures_arms.growth_chart(lines)] if lines else []


def _of_arms(chart: Callable[..., Chart], cost: str) -> Draw:
    """Return what draws a chart of the arms by hits and a cost, if any has both."""

    def draw(data: ReportData) -> list[Chart]:
        points = figures_arms.tradeoff_points(data.measures, data.run.cutoff, cost)
        return [chart(data.measures, data.run.cutoff)] if points else []

    return draw


def _timelines(data: ReportData) -> list[Chart]:
    return [
        figures_arms.timeline_chart(found.turns, found.tiers, name)
        for name in busiest(data.material.shares.turns, SHOWN_TIMELINES)
        for found in [timeline(data.run, name, data.pair)]
    ]


def _stages(data: ReportData) -> list[Chart]:
    if not data.material.stages:
        return []
    return [figures_arms.turn_chart(*_times(data.run.arms, data.material.stages))]


def _times(arms: Sequence[str], stages: Sequence[Stage]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    turns = {stage.arm: stage.spent.n for stage in stages if stage.stage == TOTAL}
    # A turn without a stage counts as 0 ms for it, so that the mean stages add up to the mean turn.
    means = {
        arm: {
            stage.stage: (stage.spent.mean or 0.0) * stage.spent.n / turns[arm]
            for stage in stages
            if stage.arm == arm and stage.stage != TOTAL
        }
        for arm in arms
    }
    notes = {
        stage.arm: f"p50 {milliseconds(p50.value)} ms, "
        + (f"p95 {milliseconds(p95.value)}" if (p95 := stage.spent.p95) else "n too small for p95")
        for stage in stages
        if stage.stage == TOTAL and (p50 := stage.spent.p50)
    }
    return {arm: by_stage for arm, by_stage in means.items() if by_stage}, notes


TIMELINE = ReportFigure(
    "timeline",
    "turns",
    "",
    "The conversations with the most recall turns. A long horizontal line is one memory that is injected in many "
    "consecutive turns; a steep staircase means that new memories are injected.",
    _timelines,
)
# In the order of the page.
FIGURES = (
    ReportFigure(
        "forest",
        "comparison",
        "",
        "An interval, where there is one, is clustered by conversation and holds for other conversations like these.",
        _forest,
    ),
    ReportFigure(
        "saturation",
        "saturation",
        "",
        "Labels were sampled several times for each share of must_remember memories; the band is the range over "
        "samples. Upper row: no must_remember memory is relevant to any probe, as if all of them were durable rules "
        "that an ordinary turn does not need. Lower row: labels are independent of relevance; at the right edge every "
        "memory is must_remember, so tiers make no difference.",
        _of_points(SATURATION, SaturationPoint, lambda points, _: figures_studies.saturation_chart(points)),
    ),
    ReportFigure(
        "silence",
        "arms",
        "False recall against hits",
        "Curves of lab study silence over every threshold; each point is computed on all conversations, so the best "
        "one looks better than it is. The table of lab study silence has thresholds that are chosen on one half and "
        "evaluated on the other.",
        _of_points(SILENCE, SilencePoint, lambda points, _: figures_studies.silence_chart(points)),
    ),
    ReportFigure(
        "scale",
        "arms",
        "Every arm as a conversation gets more memories",
        "The same replay with haystacks of several sizes (lab study scale). The median time of a turn was measured "
        "during these replays, with searches shared between arms.",
        _of_points(SCALE, ScalePoint, lambda points, data: figures_studies.scale_chart(points, data.run.cutoff)),
        repeatable=False,
    ),
    ReportFigure(
        "pareto",
        "arms",
        "Hits against injected tokens",
        "Tokens are estimated from characters: 1/4 token per ASCII character, 2/3 per Chinese one, 1/2 per other one. "
        "The oracle is an upper bound, so it is not on the Pareto front.",
        _of_arms(figures_arms.pareto_chart, "InjectedTokens"),
    ),
    ReportFigure(
        "tradeoff",
        "arms",
        "Hits against repeats",
        "Every arm of the run. The oracle injects exactly the relevant memories; the arm none injects nothing.",
        _of_arms(figures_arms.tradeoff_chart, "RepeatRate"),
    ),
    ReportFigure(
        "missed",
        "arms",
        "Missed relevant memories by cause",
        "From all relevant memories of all probes down to those in the prompt. Each missed memory has one cause, the "
        "first that applies in the order of a recall; `lab missed` explains the causes.",
        _missed,
    ),
    TIMELINE,
    ReportFigure(
        "tiers",
        "turns",
        "Importance labels of injected memories over time",
        "Importance labels of the memories injected at recall turns, from the first turns to the last.",
        lambda data: [figures_arms.tiers_chart({arm: data.material.shares.by_part[arm] for arm in data.pair})],
    ),
    ReportFigure(
        "composition",
        "turns",
        "Importance labels of injected memories by arm",
        "Importance labels of the memories injected at recall turns.",
        lambda data: [figures_arms.composition_chart(data.material.shares.overall)],
    ),
    ReportFigure(
        "slices",
        "slices",
        "",
        "Subgroups of the golden set. They are exploratory and do not affect the verdict.",
        _slices,
    ),
    ReportFigure(
        "growth",
        "stored",
        "Growth of the store",
        "Memories that arms captured and hold. A line that stays straight means that the store keeps growing.",
        _growth,
    ),
    ReportFigure(
        "stages",
        "latency",
        "",
        "Measured during this replay, without the first turn of each conversation. lab study latency measures what a "
        "live turn waits, with a search of its own over LanceDB for every arm: ratios of arms differ from these.",
        _stages,
        repeatable=False,
    ),
)
CAPTIONS = {figure.name: figure.caption for figure in FIGURES}
