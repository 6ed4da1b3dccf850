"""Differences of two arms with their intervals: the primary measures, slices, and the steps of an ablation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.base.formatting import counted, number
from lab.compare.paired import Difference, Slice
from lab.measures.catalogue import direction
from lab.report import units
from lab.report.charts import Axis, Chart, Intervals, Row, Words, better_legend, nice_axis

if TYPE_CHECKING:
    from lab.compare.arms import StepResult

# Slices that fit on a slide.
MOST_SLICES = 14
DECIDED = {True: "better", False: "worse", None: "not significantly different"}
# The measures of an ablation that have a panel.
PANELS = {
    "Success": "hit@{k}: a relevant memory is an item",
    "Present": "present: it is an item or in the Working Set",
    "RepeatRate": "repeat rate",
    "InjectedChars": "injected characters",
}


def forest_chart(
    differences: Sequence[Difference], baseline: str, candidate: str, beyond: Sequence[Difference] = ()
) -> Chart:
    """Return candidate minus baseline with 95 % intervals; the zero line means no difference.

    Shares are in points; measures that are no shares follow, relative to the baseline. ``beyond`` are measures that got
    worse and are not primary: the title names them.
    """
    primary = drawable(differences)
    shown = [*primary, *drawable(beyond)]
    conversations = max((difference.conversations for difference in shown), default=0)
    worse = _few([difference.measure for difference in beyond]) if beyond else ""
    words = Words(
        _finding(primary, candidate, baseline) + (f"; but worse in {worse} (not primary)" if beyond else ""),
        f"{candidate} minus {baseline}, with 95 % intervals over {counted(conversations, 'conversation')}. "
        "Blue circle: better. Orange square: worse. Grey diamond: not significant.",
    )
    every = [*differences, *beyond]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    panels = _rows([one for one in every if units.is_share(one.measure)], heads, differences)
    others = [one for one in every if not units.is_share(one.measure) and one.baseline > 0]
    panels += _relative(others, baseline, differences) if others else []
    return Chart(words, panels, better_legend(), across=1)


def _rows(shown: Sequence[Difference], heads: tuple[str, str, str], primary: Sequence[Difference]) -> list[Intervals]:
    rows = [
        Row(
            difference.measure,
            f"{direction(difference.measure)} is better{'' if difference in primary else '; not primary'}",
            difference.estimate.mean,
            difference.estimate.low,
            difference.estimate.high,
            units.change_of(difference.measure, difference.estimate.mean),
            units.span_of(difference.measure, difference.estimate.low, difference.estimate.high),
            difference.is_better,
        )
        for difference in shown
    ]
    return [Intervals(rows, heads, _axis(rows))] if rows else []


def _relative(shown: Sequence[Difference], baseline: str, primary: Sequence[Difference]) -> list[Intervals]:
    rows = []
    for difference in shown:
        mean, low, high = (
            None if value is None else value / difference.baseline
            for value in (difference.estimate.mean, difference.estimate.low, difference.estimate.high)
        )
        about = f"{direction(difference.measure)} is better{'' if difference in primary else '; not primary'}"
        between = "–" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"
        value = f"{100 * (mean or 0.0):+.1f}"
        rows.append(Row(difference.measure, about, mean or 0.0, low, high, value, between, difference.is_better))
    heads = (f"counted in other units, relative to {baseline}", "%", "95 % interval")
    return [Intervals(rows, heads, _axis(rows))]


def _axis(rows: Sequence[Row]) -> Axis:
    """Return an axis in points, or percent, that holds every interval and 0."""
    ends = [0.0, *(end for row in rows for end in (row.mean, row.low, row.high) if end is not None)]
    axis = nice_axis(min(ends), max(ends), most=7)
    texts = [f"{100 * value:+.3g}".replace("+0", "0").replace("-", units.MINUS) for value, _ in axis.ticks]
    return axis._replace(ticks=[(value, text) for (value, _), text in zip(axis.ticks, texts, strict=True)])


def slices_chart(slices: Sequence[Slice], baseline: str, candidate: str) -> Chart:
    """Return the slices of one measure, worst on top; slices are exploratory."""
    bounded = drawable([part.difference for part in slices])
    drawn = [part for part in slices if any(part.difference is difference for difference in bounded)]
    shown = drawn[:MOST_SLICES]
    measure = shown[0].difference.measure if shown else "no measure"
    worse = [part for part in shown if part.difference.is_better is False]
    title = (
        f"{measure} is worse in {counted(len(worse), 'slice')}, most of all {_name(worse[0])}"
        if worse
        else f"{measure} is not shown to be worse in any slice"
    )
    which = f"all {len(drawn)}" if len(shown) == len(drawn) else f"the worst {len(shown)} of {len(drawn)}"
    words = Words(
        title,
        f"{candidate} minus {baseline} by subgroup (number of probes in brackets), {which} with a 95 % interval; "
        "exploratory, not adjusted for multiple comparisons.",
    )
    rows = [
        Row(
            _name(part),
            counted(part.difference.n, "probe"),
            part.difference.estimate.mean,
            part.difference.estimate.low,
            part.difference.estimate.high,
            units.change_of(part.difference.measure, part.difference.estimate.mean),
            units.span_of(part.difference.measure, part.difference.estimate.low, part.difference.estimate.high),
            part.difference.is_better,
        )
        for part in shown
    ]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    return Chart(words, [Intervals(rows, heads, _axis(rows))], better_legend(), across=1)


def drawable(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences on the scale of shares that have an interval.

    If none has one, because there are too few conversations, return those over several conversations.
    """
    shares = [difference for difference in differences if abs(difference.estimate.mean) <= 1]
    bounded = [difference for difference in shares if difference.estimate.low is not None]
    return bounded or [difference for difference in shares if difference.conversations > 1]


def _finding(shown: Sequence[Difference], candidate: str, baseline: str) -> str:
    by_decision: dict[bool | None, list[str]] = {True: [], False: [], None: []}
    for difference in shown:
        by_decision[difference.is_better].append(difference.measure)
    if not by_decision[True] and not by_decision[False]:
        return f"No difference between {candidate} and {baseline} is shown"
    only = [better for better, names in by_decision.items() if len(names) == len(shown) > 1]
    if only:
        return f"{candidate} is {DECIDED[only[0]]} in all {len(shown)} primary measures"
    parts = [f"{DECIDED[better]} in {_few(names)}" for better, names in by_decision.items() if names]
    return f"{candidate} is {_and(parts)}"


def _few(names: Sequence[str]) -> str:
    return _and(names) if len(names) <= 2 else f"{len(names)} measures"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _name(part: Slice) -> str:
    return f"{part.name} = {part.value[:40]}"


def ablation_chart(steps: Sequence[StepResult], cutoff: int) -> Chart:
    """Return the means of every step, marked as better, worse or not significantly different from the previous one."""
    panels = []
    for stem, title in PANELS.items():
        name = f"{stem}@{cutoff}" if stem in ("Success", "Present") else stem
        rows = []
        for place, step in enumerate(steps):
            value, change = step.means.get(name), step.changes.get(name)
            if value is not None:
                better = change.is_better if change else None
                rows.append(Row(step.adds if place else step.arm, "", value, None, None, number(value), "", better))
        # The axis starts at 0, so that a small change looks small.
        axis = nice_axis(0.0, max((row.mean for row in rows), default=1.0))
        panels.append(Intervals(rows, ("step", "mean", ""), axis, title.format(k=cutoff)))
    words = Words(
        "Ablation: the effect of each phase",
        "Against the previous step: blue circle, better; orange square, worse; grey diamond, not significant.",
    )
    return Chart(words, panels, better_legend(), across=2)
