"""What a report draws: every figure that a run has data for, and what is said below each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.compare.paired import Comparison, Slice
from lab.formatting import counted, milliseconds
from lab.latency.turns import TOTAL, Stage, stages
from lab.report import figures
from lab.report.comparison import shown, worse
from lab.report.material import Places, busiest, places, timeline
from lab.runs.directory import RunDirectory
from lab.runs.tables import read_table
from lab.sweep.saturation import Point

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    Draw = Callable[[], Figure]

# Conversations whose turns are shown one by one.
SHOWN_TIMELINES = 4
CAPTIONS = {
    "forest": "The conversation is the unit: the interval says what another set of conversations would show.",
    "slices": "Subgroups of the golden set. They were looked for afterwards, and none decides anything.",
    "saturation": (
        "Each share of must_remember memories was drawn several times; the band is the range over draws. "
        "Upper row: none of the memories in the pool is ever wanted, which is how a pool of durable rules behaves on "
        "an ordinary turn. Lower row: labels say nothing about what is wanted, so at the right edge everything is "
        "must_remember and the tiers cease to matter."
    ),
    "tradeoff": "Every arm of the run. The oracle injects what is wanted and nothing else; none injects nothing.",
    "pareto": (
        "Tokens are estimated: a quarter of ASCII characters, two thirds of Chinese ones, half of others. "
        "The oracle is a bound and no arm, so it is not on the line."
    ),
    "timeline": (
        "The conversations with the most recall turns. A long horizontal line is one memory that is injected turn "
        "after turn; a steep staircase is a policy that finds something new."
    ),
    "tiers": "The importance labels of everything that was injected at recall turns, from the first ones to the last.",
    "composition": "The importance labels of everything that was injected at recall turns.",
    "stages": (
        "As this replay ran, over its own store and with what its arms share; lab latency times the live path. "
        "The first turn of each conversation is left out."
    ),
}


class Material(NamedTuple):
    """What is read of a run once, for figures and tables alike."""

    places: Places
    stages: list[Stage]


def gather(run: RunDirectory) -> Material:
    """Read it."""
    return Material(places(run), stages(run))


def source_of(run: RunDirectory) -> str:
    """Where a figure comes from, in a line."""
    resolved = run.manifest.resolved
    return (
        f"recall lab, run {run.manifest.run_key[:12]}: {resolved.format} recordings, "
        f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}, {resolved.embedder_model}"
    )


def drawings(
    run: RunDirectory, summary: dict[str, Any], comparison: Comparison | None, material: Material | None = None
) -> dict[str, Draw]:
    """What draws each figure that this run has data for, by its name, in the order of the page."""
    places, stages = material or gather(run)
    source = source_of(run)
    pair = [comparison.baseline, comparison.candidate] if comparison else run.arms[:1]
    drawn: dict[str, Draw] = {}
    if comparison:
        primary = shown(comparison)
        if any(one.estimate.low is not None for one in primary):
            drawn["forest"] = partial(
                figures.forest_figure,
                primary,
                comparison.baseline,
                comparison.candidate,
                source,
                [one.measure for one in worse(comparison)],
            )
        sliced = decisive_slices(comparison)
        if any(one.difference.estimate.low is not None for one in sliced):
            drawn["slices"] = partial(figures.slices_figure, sliced, comparison.baseline, comparison.candidate, source)
    saturation = run.path / "saturation.parquet"
    if saturation.exists():
        points = [Point(**row) for row in read_table(saturation).to_pylist()]
        drawn["saturation"] = partial(figures.saturation_figure, points, source)
    measures = {arm: one["measures"] for arm, one in summary["arms"].items()}
    if figures.tradeoff_points(measures, run.cutoff):
        drawn["tradeoff"] = partial(figures.tradeoff_figure, measures, run.cutoff, source)
    if figures.tradeoff_points(measures, run.cutoff, "InjectedTokens"):
        drawn["pareto"] = partial(figures.pareto_figure, measures, run.cutoff, source)
    for number, name in enumerate(busiest(places.turns, SHOWN_TIMELINES), 1):
        found = timeline(run, name, pair)
        key = "timeline" if number == 1 else f"timeline-{number}"
        drawn[key] = partial(figures.timeline_figure, found.turns, found.tiers, name, source)
    drawn["tiers"] = partial(figures.tiers_figure, {arm: places.by_part[arm] for arm in pair}, source)
    drawn["composition"] = partial(figures.composition_figure, places.overall, source)
    if stages:
        drawn["stages"] = partial(figures.turn_figure, *_times(run.arms, stages), source)
    return drawn


def timeline_names(drawn: Iterable[str]) -> list[str]:
    """Those of some figures that are timelines, in their order."""
    return [name for name in drawn if name.startswith("timeline")]


def decisive_slices(comparison: Comparison) -> list[Slice]:
    """The slices of the first primary measure, the worst first."""
    first = next((one.difference.measure for one in comparison.slices), None)
    return [one for one in comparison.slices if one.difference.measure == first]


def _times(arms: Sequence[str], stages: Sequence[Stage]) -> tuple[dict[str, dict[str, float]], dict[str, str]]:
    turns = {one.arm: one.spent.n for one in stages if one.stage == TOTAL}
    # A stage that some turns have not had took no time in these: so the stages add up to the turn.
    means = {
        arm: {
            one.stage: (one.spent.mean or 0.0) * one.spent.n / turns[arm]
            for one in stages
            if one.arm == arm and one.stage != TOTAL
        }
        for arm in arms
    }
    notes = {
        one.arm: f"p50 {milliseconds(p50.value)} ms, "
        + (f"p95 {milliseconds(p95.value)}" if (p95 := one.spent.p95) else "n too small for p95")
        for one in stages
        if one.stage == TOTAL and (p50 := one.spent.p50)
    }
    return {arm: own for arm, own in means.items() if own}, notes
