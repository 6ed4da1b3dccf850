"""The figures of a report: one entry for each in :data:`FIGURES`, with its section and caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.formatting import milliseconds
from lab.compare.paired import Comparison, Slice
from lab.measures.turn_latency import TOTAL, Stage, stages
from lab.replay.missed import FILE as MISSED
from lab.replay.missed import counts_in
from lab.report import figures
from lab.report.comparison import shown, worse
from lab.report.entry import Material, ReportData, ReportFigure, Shown
from lab.report.material import busiest, tier_shares, timeline
from lab.report.stored import growth
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.studies.saturation import FILE as SATURATION
from lab.studies.saturation import Point as SaturationPoint
from lab.studies.scale import POINTS as SCALE
from lab.studies.scale import ScalePoint
from lab.studies.silence import FILE as SILENCE
from lab.studies.silence import Point as SilencePoint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lab.report.entry import Draw

# How many conversations get a timeline.
SHOWN_TIMELINES = 4


class Drawing(NamedTuple):
    """A figure that a run has data for, the function that draws its slide, and the one that returns its chart."""

    figure: ReportFigure
    draw: Draw
    chart: Callable[[], str] | None = None


def gather(run: RunDirectory) -> Material:
    """Read the data of a run that figures and tables share."""
    return Material(tier_shares(run), stages(run))


def drawings(
    run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None, material: Material | None = None
) -> dict[str, Drawing]:
    """Return the figures that a run has data for, by file name without suffix, in the order of the page."""
    data = ReportData(run, summary, comparison, material or gather(run))
    drawn: dict[str, Drawing] = {}
    for figure in FIGURES:
        draws = figure.draw(data)
        for name, draw in zip(figure.file_names(len(draws)), draws, strict=True):
            drawn[name] = Drawing(figure, *draw) if isinstance(draw, Shown) else Drawing(figure, draw)
    return drawn


def _shown(
    slide: Callable[..., Figure], chart: Callable[..., str], data: ReportData, *given: Any, **more: Any
) -> Shown:
    """Return a figure from the data that its slide and its chart share."""
    return Shown(partial(slide, *given, **more, source=data.source), partial(chart, *given, **more))


def decisive_slices(comparison: Comparison) -> list[Slice]:
    """Return the slices of the first primary measure, worst first."""
    first = next((part.difference.measure for part in comparison.slices), None)
    return [part for part in comparison.slices if part.difference.measure == first]


def _forest(data: ReportData) -> list[Shown]:
    comparison = data.comparison
    primary = shown(comparison) if comparison else []
    if not comparison or not any(difference.conversations > 1 for difference in primary):
        return []
    arms = comparison.baseline, comparison.candidate
    return [_shown(figures.forest_figure, figures.forest_chart, data, primary, *arms, beyond=worse(comparison))]


def _slices(data: ReportData) -> list[Shown]:
    comparison = data.comparison
    sliced = decisive_slices(comparison) if comparison else []
    if not comparison or not any(part.difference.conversations > 1 for part in sliced):
        return []
    return [
        _shown(figures.slices_figure, figures.slices_chart, data, sliced, comparison.baseline, comparison.candidate)
    ]


def _rows(data: ReportData, name: str) -> list[dict[str, Any]]:
    """Return the rows of a table that another command wrote into the run, if it did."""
    path = data.run.path / name
    return read_table(path).to_pylist() if path.exists() else []


def _saturation(data: ReportData) -> list[Shown]:
    points = [SaturationPoint(**row) for row in _rows(data, SATURATION)]
    return [_shown(figures.saturation_figure, figures.saturation_chart, data, points)] if points else []


def _missed(data: ReportData) -> list[Shown]:
    path = data.run.path / MISSED
    if not path.exists():
        return []
    return [_shown(figures.missed_figure, figures.missed_chart, data, counts_in(read_table(path)), first=data.pair)]


def _silence(data: ReportData) -> list[Shown]:
    points = [SilencePoint(**row) for row in _rows(data, SILENCE)]
    return [_shown(figures.silence_figure, figures.silence_chart, data, points)] if points else []


def _scale(data: ReportData) -> list[Shown]:
    points = [ScalePoint(**row) for row in _rows(data, SCALE)]
    return [_shown(figures.scale_figure, figures.scale_chart, data, points, data.run.cutoff)] if points else []


def _growth(data: ReportData) -> list[Shown]:
    lines = growth(data.run)
    return [_shown(figures.growth_figure, figures.growth_chart, data, lines)] if lines else []


def _tradeoff(data: ReportData) -> list[Shown]:
    if not figures.tradeoff_points(data.measures, data.run.cutoff):
        return []
    return [_shown(figures.tradeoff_figure, figures.tradeoff_chart, data, data.measures, data.run.cutoff)]


def _pareto(data: ReportData) -> list[Shown]:
    if not figures.tradeoff_points(data.measures, data.run.cutoff, "InjectedTokens"):
        return []
    return [_shown(figures.pareto_figure, figures.pareto_chart, data, data.measures, data.run.cutoff)]


def _timelines(data: ReportData) -> list[Shown]:
    draws: list[Shown] = []
    for name in busiest(data.material.shares.turns, SHOWN_TIMELINES):
        shown_turns = timeline(data.run, name, data.pair)
        slide = partial(figures.timeline_figure, conversation=name)
        draws.append(_shown(slide, figures.timeline_chart, data, shown_turns.turns, shown_turns.tiers))
    return draws


def _tiers(data: ReportData) -> list[Shown]:
    shares = {arm: data.material.shares.by_part[arm] for arm in data.pair}
    return [_shown(figures.tiers_figure, figures.tiers_chart, data, shares)]


def _composition(data: ReportData) -> list[Shown]:
    return [_shown(figures.composition_figure, figures.composition_chart, data, data.material.shares.overall)]


def _stages(data: ReportData) -> list[Shown]:
    if not data.material.stages:
        return []
    return [_shown(figures.turn_figure, figures.turn_chart, data, *_times(data.run.arms, data.material.stages))]


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
        "Intervals are clustered by conversation, so they hold for other conversations like these.",
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
        _saturation,
    ),
    ReportFigure(
        "silence",
        "arms",
        "False recall against hits",
        "Curves of lab study silence over every threshold; each point is computed on all conversations, so the best "
        "one looks better than it is. The table of lab study silence has thresholds that are chosen on one half and "
        "evaluated on the other.",
        _silence,
    ),
    ReportFigure(
        "scale",
        "arms",
        "Every arm as a conversation gets more memories",
        "The same replay with haystacks of several sizes (lab study scale). The median time of a turn was measured "
        "during these replays, with searches shared between arms.",
        _scale,
        repeatable=False,
    ),
    ReportFigure(
        "pareto",
        "arms",
        "Hits against injected tokens",
        "Tokens are estimated from characters: 1/4 token per ASCII character, 2/3 per Chinese one, 1/2 per other one. "
        "The oracle is an upper bound, so it is not on the Pareto front.",
        _pareto,
    ),
    ReportFigure(
        "tradeoff",
        "arms",
        "Hits against repeats",
        "Every arm of the run. The oracle injects exactly the relevant memories; the arm none injects nothing.",
        _tradeoff,
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
        _tiers,
    ),
    ReportFigure(
        "composition",
        "turns",
        "Importance labels of injected memories by arm",
        "Importance labels of the memories injected at recall turns.",
        _composition,
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
        "Measured during this replay, on its store and with searches shared between arms; lab study latency measures "
        "the live path. The first turn of each conversation is left out.",
        _stages,
        repeatable=False,
    ),
)
CAPTIONS = {figure.name: figure.caption for figure in FIGURES}
