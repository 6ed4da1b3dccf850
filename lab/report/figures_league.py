"""The charts of a league: measures over token budgets, and the Pareto front of hits and tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.base.formatting import counted, together
from lab.report.charts import COLOURS, SOFT, Chart, Key, Plot, Series, Words, nice_axis, shares_axis, sizes_axis
from lab.report.figures_arms import front_of
from lab.studies.league.league import League
from lab.studies.league.table import OVERALL, TOKENS, WHOLE, Row

# Colours for arms that have none of their own, in the order of the league; dashes and markers differ as well.
OTHERS = ("#882255", "#117733", "#332288", "#AA4499", "#44AA99", "#999933", "#661100", "#6699CC", "#DDAA33")
DASHES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>PX"
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


def curves_chart(league: League, measure: str = WHOLE) -> Chart:
    """Return the headline measure of every arm over the budgets, with 95 % intervals."""
    where = OVERALL if league.overall else next(iter(league.sets))
    cells = [row.cells[measure] for row in main_rows(league) if measure in row.cells]
    bars = " Bars: 95 % intervals by conversation." if any(cell.low is not None for cell in cells) else ""
    words = Words(_winners(league, measure, where), _what(where, len(league.sets)) + bars)
    last = {
        row.arm: f"{value:.2f}"
        for row in main_rows(league)
        if row.budget == league.budgets[-1] and (value := row.mean(measure)) is not None
    }
    panel = _lines(league, main_rows(league), measure, "", label=plural(measure), bars=True)
    return Chart(words, [panel], _key(league, last), is_beside=True)


def sets_chart(league: League, measure: str = WHOLE) -> Chart:
    """Return the headline measure over the budgets, one panel for each set."""
    words = Words(
        f"{plural(measure)} over token budgets, set by set", "Each line is an arm; the table below has the intervals."
    )
    panels = [_lines(league, [row for row in league.rows if row.set == name], measure, name) for name in league.sets]
    return Chart(words, panels, _key(league), across=4)


def measures_chart(league: League) -> Chart:
    """Return the other measures over the budgets."""
    measures = ("hit", "CleanHit", "Present", "RepeatRate", "FalseRecall", "StaleRecall")
    titles = ("hit", "CleanHit", "Present", "RepeatRate, lower is better", "FalseRecall, lower", "StaleRecall, lower")
    words = Words("What else the budgets buy, and cost", "A missing line has no value on any of the sets.")
    panels = [
        _lines(league, main_rows(league), measure, title) for measure, title in zip(measures, titles, strict=True)
    ]
    return Chart(words, panels, _key(league))


def front_chart(league: League, measure: str = WHOLE) -> Chart:
    """Return every arm at every budget, and as configured, by the tokens that it did inject, with the Pareto front."""
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
    looks = {arm: look for arm, look in looks_of(league).items() if arm not in bounds}
    series = [Series("front", [points[name][::-1] for name in front], SOFT, dash="--")]
    for arm, (colour, _, marker) in looks.items():
        rows = [row for row in main_rows(league) if row.arm == arm]
        drawn = sorted((row.mean(TOKENS) or 0.0, row.mean(measure) or 0.0) for row in rows if row.budget is not None)
        series.append(Series(arm, drawn, colour, marker))
        own = next((row for row in rows if row.budget is None), None)
        if own is not None and (spent := own.mean(TOKENS)) is not None and (hit := own.mean("hit")) is not None:
            series.append(Series(arm, [(spent, hit)], colour, "*", None))
    costs = [cost for one in series for cost, _ in one.points]
    x = nice_axis(0.0, max(costs, default=1.0), "tokens injected at a probe, mean (lower is better)")
    key = [one for one in _key(league) if one.name in looks]
    return Chart(words, [Plot(series, x, shares_axis(plural(measure)))], key, is_beside=True)


def _lines(
    league: League, rows: Sequence[Row], measure: str, title: str, *, label: str = "", bars: bool = False
) -> Plot:
    x, places = sizes_axis(league.budgets, "token budget of the injected text")
    series = []
    looks = looks_of(league)
    # Beside each other, so that bars do not hide one another.
    spread = (len(looks) - 1) / 2
    for number, (arm, (colour, dash, marker)) in enumerate(looks.items()):
        cells = [
            (places[row.budget] + 0.01 * (number - spread), row.cells[measure])
            for row in rows
            if row.arm == arm and row.budget is not None and measure in row.cells
        ]
        points = [(at, cell.mean) for at, cell in cells]
        bounds = [(at, cell.low, cell.high) for at, cell in cells if cell.low is not None and cell.high is not None]
        series.append(Series(arm, points, colour, marker, dash, bounds if bars else (), has_bars=True))
    return Plot([one for one in series if one.points], x, shares_axis(label), title)


def _key(league: League, texts: Mapping[str, str] | None = None) -> list[Key]:
    return [
        Key(arm, colour, marker, dash, (texts or {}).get(arm, ""))
        for arm, (colour, dash, marker) in looks_of(league).items()
    ]


def plural(measure: str) -> str:
    """Return the name of a measure in a sentence."""
    return {WHOLE: "whole hits", "hit": "hits"}.get(measure, measure)


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
    return f"{over}. Every arm injects at most the budget, frame included."
