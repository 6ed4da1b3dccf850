"""The charts of a league: measures over token budgets, and the Pareto front of hits and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lab.base.formatting import counted, together
from lab.report.figures_tradeoff import front_of
from lab.report.style import COLOURS, MIDDLE, SMALL, SOFT, Words, name_at_right, slide, styled
from lab.studies.league.league import League
from lab.studies.league.table import OVERALL, TOKENS, WHOLE, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Colours for arms that have none of their own, in the order of the league; dashes and markers differ as well.
OTHERS = ("#882255", "#117733", "#332288", "#AA4499", "#44AA99", "#999933", "#661100", "#6699CC", "#DDAA33")
DASHES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>Ph*Xp8"
# Arms that a chart can name beside it.
MOST = 18
# Characters of a name in a chart.
LONGEST = 22
Looks = Mapping[str, tuple[str, str, str]]


def looks_of(league: League) -> Looks:
    """Return the colour, line style and marker of every arm that has figures."""
    arms = list(dict.fromkeys(row.arm for row in league.rows))
    colours: dict[str, str] = {}
    for arm in arms:
        used = len([other for other in colours if other not in COLOURS])
        colours[arm] = COLOURS.get(arm) or OTHERS[used % len(OTHERS)]
    return {
        arm: (colours[arm], DASHES[number % len(DASHES)], MARKERS[number % len(MARKERS)])
        for number, arm in enumerate(arms)
    }


def main_rows(league: League) -> Sequence[Row]:
    """Return the rows of all sets together, or of the only set."""
    return league.overall or league.rows


@styled
def curves_figure(league: League, measure: str = WHOLE) -> Figure:
    """Draw the headline measure of every arm over the budgets, with 95 % intervals."""
    rows, looks = main_rows(league), looks_of(league)
    where = OVERALL if league.overall else next(iter(league.sets))
    words = Words(_winners(league, measure, where), _what(where, len(league.sets)))
    figure, ((axes,),) = slide(1, 1, words)
    _lines(axes, rows, measure, looks, league.budgets, bars=True)
    axes.set(xlabel="token budget of the injected text", ylabel=plural(measure), ylim=(-0.02, 1.02))
    last = {
        row.arm: value for row in rows if row.budget == league.budgets[-1] if (value := row.mean(measure)) is not None
    }
    texts = {f"{_short(arm)}  {value:.2f}": (league.budgets[-1], value) for arm, value in list(last.items())[:MOST]}
    colours = {text: looks[arm][0] for text, arm in zip(texts, last, strict=False)}
    name_at_right(axes, texts, colours)
    return figure


@styled
def sets_figure(league: League, measure: str = WHOLE) -> Figure:
    """Draw the headline measure over the budgets, one chart for each set."""
    names = list(league.sets)
    columns = min(4, len(names))
    words = Words(
        f"{plural(measure)} over token budgets, set by set", "Each line is an arm; the table below has the intervals."
    )
    figure, grid = slide(-(-len(names) // columns), columns, words, sharey=True)
    looks = looks_of(league)
    for axes, name in zip(grid.flat, names, strict=False):
        _lines(axes, [row for row in league.rows if row.set == name], measure, looks, league.budgets)
        axes.set_title(name, fontsize=SMALL + 1)
        axes.set_ylim(-0.02, 1.02)
        axes.tick_params(labelsize=SMALL - 2)
    for axes in list(grid.flat)[len(names) :]:
        axes.set_visible(False)
    _legend(figure, grid.flat[0])
    return figure


@styled
def measures_figure(league: League) -> Figure:
    """Draw the other measures over the budgets."""
    measures = ("hit", "CleanHit", "Present", "RepeatRate", "FalseRecall", "StaleRecall")
    titles = ("hit", "CleanHit", "Present", "RepeatRate, lower is better", "FalseRecall, lower", "StaleRecall, lower")
    words = Words("What else the budgets buy, and cost", "A missing line has no value on any of the sets.")
    figure, grid = slide(2, 3, words, sharey=True)
    looks = looks_of(league)
    for axes, measure, title in zip(grid.flat, measures, titles, strict=True):
        _lines(axes, main_rows(league), measure, looks, league.budgets)
        axes.set_title(title, fontsize=SMALL + 1)
        axes.set_ylim(-0.02, 1.02)
        axes.tick_params(labelsize=SMALL - 2)
    _legend(figure, grid.flat[0])
    return figure


@styled
def front_figure(league: League, measure: str = WHOLE) -> Figure:
    """Draw every arm at every budget, and as configured, by the tokens that it did inject, with the Pareto front."""
    looks = looks_of(league)
    bounds = {standing.arm for standing in league.standings if not standing.is_ranked}
    points: dict[str, tuple[float, float]] = {}
    arm_of: dict[str, str] = {}
    for row in main_rows(league):
        # As configured, hits on parts of a text count as well, so those points cannot be on the same front.
        value, spent = row.mean(measure), row.mean(TOKENS)
        if row.budget is not None and value is not None and spent is not None and row.arm not in bounds:
            points[f"{row.arm} {row.budget}"] = (value, spent)
            arm_of[f"{row.arm} {row.budget}"] = row.arm
    # A point without hits is on every front if it costs nothing, which is no merit.
    front = front_of({name: point for name, point in points.items() if point[0]})
    count = len({arm_of[name] for name in front})
    words = Words(
        f"{count} of {counted(len({*arm_of.values()}), 'arm')} {'is' if count == 1 else 'are'} on the Pareto front of "
        f"{plural(measure)} and tokens",
        "Tokens that were injected at a probe, mean. The broken line is the Pareto front of the budgets, without the "
        "upper bound. Stars: systems as configured, with all their hits.",
    )
    figure, ((axes,),) = slide(1, 1, words)
    for arm, (colour, _, marker) in looks.items():
        if arm in bounds:
            continue
        drawn = sorted(
            (row.mean(TOKENS) or 0.0, row.mean(measure) or 0.0)
            for row in main_rows(league)
            if row.arm == arm and row.budget is not None
        )
        axes.plot(
            *zip(*drawn, strict=True),
            color=colour,
            marker=marker,
            markersize=6,
            linewidth=1,
            alpha=0.85,
            label=_short(arm),
        )
        own = next((row for row in main_rows(league) if row.arm == arm and row.budget is None), None)
        if own is not None and own.mean(TOKENS) is not None:
            axes.plot(own.mean(TOKENS), own.mean("hit"), "*", color=colour, markersize=15, markeredgecolor=SOFT)
    axes.plot([points[name][1] for name in front], [points[name][0] for name in front], "--", color=SOFT, zorder=1)
    axes.set(xlabel="tokens injected at a probe, mean (lower is better)", ylabel=plural(measure), ylim=(-0.02, 1.02))
    _legend(figure, axes)
    return figure


def _lines(
    axes: Axes, rows: Sequence[Row], measure: str, looks: Looks, budgets: Sequence[int], *, bars: bool = False
) -> None:
    spread = (len(looks) - 1) / 2
    for number, (arm, (colour, dash, marker)) in enumerate(looks.items()):
        drawn = [
            (row.budget, row.cells[measure])
            for row in rows
            if row.arm == arm and row.budget is not None and measure in row.cells
        ]
        # Beside each other, so that intervals do not hide one another.
        at = [budget * (1 + 0.006 * (number - spread)) if bars else budget for budget, _ in drawn]
        means = [cell.mean for _, cell in drawn]
        axes.plot(at, means, dash, color=colour, marker=marker, markersize=5, linewidth=1.5, label=_short(arm))
        if bars:
            for x, (_, cell) in zip(at, drawn, strict=True):
                if cell.low is not None and cell.high is not None:
                    axes.plot([x, x], [cell.low, cell.high], "-", color=colour, linewidth=1, alpha=0.45)
    axes.set_xscale("log")
    axes.set_xticks(budgets, [f"{budget:,}" for budget in budgets])
    axes.minorticks_off()


def plural(measure: str) -> str:
    """Return the name of a measure in a sentence."""
    return {WHOLE: "whole hits", "hit": "hits"}.get(measure, measure)


def _short(arm: str) -> str:
    """Return a name that leaves room for the chart."""
    return arm if len(arm) <= LONGEST else f"{arm[: LONGEST - 1]}…"


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right center", fontsize=MIDDLE - 4)


def _winners(league: League, measure: str, where: str) -> str:
    contests = [contest for contest in league.contests if contest.measure == measure and contest.set == where]
    if not contests:
        return f"{plural(measure)} over token budgets"
    first, last = contests[0], contests[-1]
    if not last.against or not last.cell.mean:
        return f"{plural(measure)} over token budgets"
    ones, others = (together([contest.winner, *contest.tied]) for contest in (first, last))
    most = f"{'have' if first.tied else 'has'} the most {plural(measure)}"
    if ones == others:
        return f"{ones} {most} at {first.budget:,} and at {last.budget:,} tokens"
    return f"{ones} {most} at {first.budget:,} tokens, {others} at {last.budget:,}"


def _what(where: str, sets: int) -> str:
    over = f"mean over {sets} sets, each with the same weight" if where == OVERALL else where
    return f"{over}. Every arm injects at most the budget, frame included. Bars: 95 % intervals by conversation."
