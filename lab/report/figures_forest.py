"""Forest plots: differences of two arms with their intervals, for the primary measures and for slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.base.formatting import counted, signed
from lab.compare.paired import Difference, Slice
from lab.measures.catalogue import direction
from lab.report import charts, units
from lab.report.style import MARKS, MIDDLE, SMALL, SOFT, Words, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Slices that fit on a slide.
MOST_SLICES = 14
DECIDED = {True: "better", False: "worse", None: "not significantly different"}


@styled
def forest_figure(
    differences: Sequence[Difference],
    baseline: str,
    candidate: str,
    source: str = "",
    beyond: Sequence[Difference] = (),
) -> Figure:
    """Draw candidate minus baseline with 95 % intervals; the zero line means no difference.

    ``beyond`` are measures that got worse and are not primary: the title names them, and shares are drawn below.
    """
    primary = drawable(differences)
    shown = [*primary, *drawable(beyond)]
    conversations = max((difference.conversations for difference in shown), default=0)
    worse = _few([difference.measure for difference in beyond]) if beyond else ""
    words = Words(
        _finding(primary, candidate, baseline) + (f"; but worse in {worse} (not primary)" if beyond else ""),
        f"{candidate} minus {baseline}, with 95 % intervals over {counted(conversations, 'conversation')}. "
        "Blue circle: better. Orange square: worse. Grey diamond: not significant.",
        source,
    )
    names = [f"{difference.measure} ({direction(difference.measure)} is better)" for difference in shown]
    return _forest(shown, names, words, f"{candidate} minus {baseline}, with its 95 % interval")


def forest_chart(
    differences: Sequence[Difference], baseline: str, candidate: str, beyond: Sequence[Difference] = ()
) -> str:
    """Return the same for the page, in points; measures that are no shares follow, relative to the baseline."""
    every = [*differences, *beyond]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    parts = [_rows([one for one in every if units.is_share(one.measure)], heads, differences)]
    others = [one for one in every if not units.is_share(one.measure) and one.baseline > 0]
    if others:
        parts.append(_relative(others, baseline, differences))
    return charts.better_legend() + "".join(parts)


def _rows(shown: Sequence[Difference], heads: tuple[str, str, str], primary: Sequence[Difference]) -> str:
    rows = [
        charts.Row(
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
    return charts.interval_rows(rows, heads, _axis(rows)) if rows else ""


def _relative(shown: Sequence[Difference], baseline: str, primary: Sequence[Difference]) -> str:
    rows = []
    for difference in shown:
        mean, low, high = (
            None if value is None else value / difference.baseline
            for value in (difference.estimate.mean, difference.estimate.low, difference.estimate.high)
        )
        about = f"{direction(difference.measure)} is better{'' if difference in primary else '; not primary'}"
        between = "–" if low is None or high is None else f"{100 * low:+.1f} to {100 * high:+.1f}"
        value = f"{100 * (mean or 0.0):+.1f}"
        rows.append(charts.Row(difference.measure, about, mean or 0.0, low, high, value, between, difference.is_better))
    heads = (f"counted in other units, relative to {baseline}", "%", "95 % interval")
    return charts.interval_rows(rows, heads, _axis(rows))


def _axis(rows: Sequence[charts.Row]) -> charts.Axis:
    """Return an axis in points, or percent, that holds every interval and 0."""
    ends = [0.0, *(end for row in rows for end in (row.mean, row.low, row.high) if end is not None)]
    axis = charts.nice_axis(min(ends), max(ends), most=7)
    texts = [f"{100 * value:+.3g}".replace("+0", "0").replace("-", units.MINUS) for value, _ in axis.ticks]
    return axis._replace(ticks=[(value, text) for (value, _), text in zip(axis.ticks, texts, strict=True)])


@styled
def slices_figure(slices: Sequence[Slice], baseline: str, candidate: str, source: str = "") -> Figure:
    """Draw the slices of one measure, worst on top; slices are exploratory."""
    bounded = drawable([part.difference for part in slices])
    drawn = [part for part in slices if any(part.difference is difference for difference in bounded)]
    shown = drawn[:MOST_SLICES]
    differences = [part.difference for part in shown]
    measure = differences[0].measure if differences else "no measure"
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
        source,
    )
    names = [f"{_name(part)} ({part.difference.n})" for part in shown]
    return _forest(differences, names, words, f"{measure}: {candidate} minus {baseline}")


def slices_chart(slices: Sequence[Slice], baseline: str, candidate: str) -> str:
    """Return the slices of one measure for the page, worst first."""
    rows = [
        charts.Row(
            _name(part),
            counted(part.difference.n, "probe"),
            part.difference.estimate.mean,
            part.difference.estimate.low,
            part.difference.estimate.high,
            units.change_of(part.difference.measure, part.difference.estimate.mean),
            units.span_of(part.difference.measure, part.difference.estimate.low, part.difference.estimate.high),
            part.difference.is_better,
        )
        for part in slices
        if part.difference in drawable([one.difference for one in slices])
    ][:MOST_SLICES]
    heads = (f"{candidate} minus {baseline}", units.POINTS, "95 % interval")
    return charts.better_legend() + charts.interval_rows(rows, heads, _axis(rows))


def drawable(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences on the scale of shares that have an interval.

    If none has one, because there are too few conversations, return those over several conversations.
    """
    shares = [difference for difference in differences if abs(difference.estimate.mean) <= 1]
    bounded = [difference for difference in shares if difference.estimate.low is not None]
    return bounded or [difference for difference in shares if difference.conversations > 1]


def _forest(shown: Sequence[Difference], names: Sequence[str], words: Words, label: str) -> Figure:
    figure, ((axes,),) = slide(1, 1, words)
    for row, difference in enumerate(reversed(shown)):
        low, high = difference.estimate.low, difference.estimate.high
        colour, marker = MARKS[difference.is_better]
        between = "no interval"
        if low is not None and high is not None:
            axes.plot([low, high], [row, row], color=colour, linewidth=3)
            between = f"[{signed(low)}, {signed(high)}]"
        axes.plot(difference.estimate.mean, row, marker, color=colour, markersize=11)
        axes.annotate(
            f"{signed(difference.estimate.mean)}  {between}",
            (1.02, row),
            xycoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=MIDDLE - 1 if len(shown) < 10 else SMALL,
        )
    axes.axvline(0, color=SOFT, linewidth=1.2)
    axes.set_yticks(range(len(shown)), list(reversed(names)))
    axes.tick_params(axis="y", length=0, labelsize=MIDDLE if len(shown) < 10 else SMALL)
    axes.set(xlabel=label, ylim=(-0.6, max(1, len(shown)) - 0.4))
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    return figure


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
