"""Choose the figures of a report: every figure for which the run has data, with its caption."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.compare.paired import Comparison, Slice
from lab.formatting import counted, milliseconds
from lab.latency.turns import TOTAL, Stage, stages
from lab.report import figures
from lab.report.comparison import shown, worse
from lab.report.material import TierShares, busiest, tier_shares, timeline
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.sweep.saturation import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[], Figure]

# How many conversations get a timeline.
SHOWN_TIMELINES = 4
CAPTIONS = {
    "forest": "Intervals are clustered by conversation, so they hold for other conversations like these.",
    "slices": "Subgroups of the golden set. They are exploratory and do not affect the verdict.",
    "saturation": (
        "Labels were sampled several times for each share of must_remember memories; the band is the range over "
        "samples. Upper row: no must_remember memory is relevant to any probe, as if all of them were durable rules "
        "that an ordinary turn does not need. Lower row: labels are independent of relevance; at the right edge every "
        "memory is must_remember, so tiers make no difference."
    ),
    "tradeoff": "Every arm of the run. The oracle injects exactly the relevant memories; the arm none injects nothing.",
    "pareto": (
        "Tokens are estimated from characters: 1/4 token per ASCII character, 2/3 per Chinese one, 1/2 per other one. "
        "The oracle is an upper bound, so it is not on the Pareto front."
    ),
    "timeline": (
        "The conversations with the most recall turns. A long horizontal line is one memory that is injected in many "
        "consecutive turns; a steep staircase means that new memories are injected."
    ),
    "tiers": "Importance labels of the memories injected at recall turns, from the first turns to the last.",
    "composition": "Importance labels of the memories injected at recall turns.",
    "stages": (
        "Measured during this replay, on its store and with searches shared between arms; lab latency measures the "
        "live path. The first turn of each conversation is left out."
    ),
}


class Material(NamedTuple):
    """The data that figures and tables share: shares of injected items by tier, and times by stage."""

    shares: TierShares
    stages: list[Stage]


def gather(run: RunDirectory) -> Material:
    """Read the data of a run that figures and tables share."""
    return Material(tier_shares(run), stages(run))


def source_of(run: RunDirectory) -> str:
    """Return the line below a figure that names the run, its data, labels and embedder."""
    resolved = run.manifest.resolved
    return (
        f"recall lab, run {run.manifest.run_key[:12]}: {resolved.format} recordings, "
        f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}, {resolved.embedder_model}"
    )


def drawings(
    run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None, material: Material | None = None
) -> dict[str, Draw]:
    """Return the functions that draw this run's figures, by name, in the order of the page."""
    shares, stages = material or gather(run)
    source = source_of(run)
    pair = [comparison.baseline, comparison.candidate] if comparison else run.arms[:1]
    drawn: dict[str, Draw] = {}
    if comparison:
        primary = shown(comparison)
        if any(difference.estimate.low is not None for difference in primary):
            drawn["forest"] = partial(
                figures.forest_figure,
                primary,
                comparison.baseline,
                comparison.candidate,
                source,
                [difference.measure for difference in worse(comparison)],
            )
        sliced = decisive_slices(comparison)
        if any(part.difference.estimate.low is not None for part in sliced):
            drawn["slices"] = partial(figures.slices_figure, sliced, comparison.baseline, comparison.candidate, source)
    saturation = run.path / "saturation.parquet"
    if saturation.exists():
        points = [Point(**row) for row in read_table(saturation).to_pylist()]
        drawn["saturation"] = partial(figures.saturation_figure, points, source)
    measures = {arm: means["measures"] for arm, means in summary["arms"].items()}
    if figures.tradeoff_points(measures, run.cutoff):
        drawn["tradeoff"] = partial(figures.tradeoff_figure, measures, run.cutoff, source)
    if figures.tradeoff_points(measures, run.cutoff, "InjectedTokens"):
        drawn["pareto"] = partial(figures.pareto_figure, measures, run.cutoff, source)
    for number, name in enumerate(busiest(shares.turns, SHOWN_TIMELINES), 1):
        shown_turns = timeline(run, name, pair)
        key = "timeline" if number == 1 else f"timeline-{number}"
        drawn[key] = partial(figures.timeline_figure, shown_turns.turns, shown_turns.tiers, name, source)
    drawn["tiers"] = partial(figures.tiers_figure, {arm: shares.by_part[arm] for arm in pair}, source)
    drawn["composition"] = partial(figures.composition_figure, shares.overall, source)
    if stages:
        drawn["stages"] = partial(figures.turn_figure, *_times(run.arms, stages), source)
    return drawn


def timeline_names(drawn: Iterable[str]) -> list[str]:
    """Return the names of the figures that are timelines, in their order."""
    return [name for name in drawn if name.startswith("timeline")]


def decisive_slices(comparison: Comparison) -> list[Slice]:
    """Return the slices of the first primary measure, worst first."""
    first = next((part.difference.measure for part in comparison.slices), None)
    return [part for part in comparison.slices if part.difference.measure == first]


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
