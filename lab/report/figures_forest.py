"""Forest plots: differences of two arms with their intervals, of the primary measures and of slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.compare.paired import Difference, Slice
from lab.formatting import counted, signed
from lab.measures.catalogue import direction, is_better
from lab.report.style import MARKS, MIDDLE, SMALL, SOFT, Words, slide, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# What fits a slide.
MOST_SLICES = 14
DECIDED = {True: "better", False: "worse", None: "not decided"}


@styled
def forest_figure(
    differences: Sequence[Difference], baseline: str, candidate: str, source: str = "", beyond: Sequence[str] = ()
) -> Figure:
    """Candidate minus baseline with 95 % intervals; the zero line is "no difference".

    ``beyond`` are measures that got worse and are not among the primary ones: the title names them.
    """
    shown = drawable(differences)
    conversations = max((one.conversations for one in shown), default=0)
    words = Words(
        _finding(shown, candidate, baseline) + (f"; worse beyond these: {_few(beyond)}" if beyond else ""),
        f"{candidate} minus {baseline}, with 95 % intervals over {counted(conversations, 'conversation')}. "
        "Blue circle: better. Orange square: worse. Grey diamond: not decided.",
        source,
    )
    names = [f"{one.measure} ({direction(one.measure)} is better)" for one in shown]
    return _forest(shown, names, words, f"{candidate} minus {baseline}, with its 95 % interval")


@styled
def slices_figure(slices: Sequence[Slice], baseline: str, candidate: str, source: str = "") -> Figure:
    """The slices of one measure, the worst on top; what was looked for afterwards is exploratory."""
    drawn = [one for one in slices if drawable([one.difference])]
    shown = drawn[:MOST_SLICES]
    found = [one.difference for one in shown]
    measure = found[0].measure if found else "no measure"
    worse = [one for one in shown if _decided(one.difference) is False]
    title = (
        f"{measure} is worse in {counted(len(worse), 'slice')}, first of all {_name(worse[0])}"
        if worse
        else f"No slice is shown to be worse by {measure}"
    )
    which = f"all {len(drawn)}" if len(shown) == len(drawn) else f"the worst {len(shown)} of {len(drawn)}"
    words = Words(
        title,
        f"{candidate} minus {baseline} by subgroup (probes in brackets), {which} that have a 95 % interval; "
        "exploratory: nothing is adjusted for how many were looked at.",
        source,
    )
    names = [f"{_name(one)} ({one.difference.n})" for one in shown]
    return _forest(found, names, words, f"{measure}: {candidate} minus {baseline}")


def drawable(differences: Sequence[Difference]) -> list[Difference]:
    """Those that have an interval, on the scale of shares."""
    return [one for one in differences if one.estimate.low is not None and abs(one.estimate.mean) <= 1]


def _forest(shown: Sequence[Difference], names: Sequence[str], words: Words, label: str) -> Figure:
    figure, ((axes,),) = slide(1, 1, words)
    for place, one in enumerate(reversed(shown)):
        low, high = one.estimate.low or 0.0, one.estimate.high or 0.0
        colour, marker = MARKS[is_better(one.measure, low, high)]
        axes.plot([low, high], [place, place], color=colour, linewidth=3)
        axes.plot(one.estimate.mean, place, marker, color=colour, markersize=11)
        axes.annotate(
            f"{signed(one.estimate.mean)}  [{signed(low)}, {signed(high)}]",
            (1.02, place),
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
    for one in shown:
        by_decision[_decided(one)].append(one.measure)
    if not by_decision[True] and not by_decision[False]:
        return f"Nothing is shown between {candidate} and {baseline}: every interval holds zero"
    only = [better for better, names in by_decision.items() if len(names) == len(shown) > 1]
    if only:
        return f"{candidate} is {DECIDED[only[0]]} in all {len(shown)} primary measures"
    parts = [
        f"{DECIDED[better]} in {_few(names)}" if better is not None else f"open in {_few(names)}"
        for better, names in by_decision.items()
        if names
    ]
    return f"{candidate} is {_and(parts)}"


def _few(names: Sequence[str]) -> str:
    return _and(names) if len(names) <= 2 else f"{len(names)} measures"


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _decided(one: Difference) -> bool | None:
    return is_better(one.measure, one.estimate.low or 0.0, one.estimate.high or 0.0)


def _name(one: Slice) -> str:
    return f"{one.name} = {one.value[:40]}"
