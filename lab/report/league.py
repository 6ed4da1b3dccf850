"""The page of a league: one self-contained HTML file, and the same in Markdown (LG-20)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.base.files import write_atomically
from lab.base.formatting import counted, milliseconds, number, p_value, signed, together
from lab.compare.statistics import LEAST_CLUSTERS, LEVEL
from lab.measures.latency import Quantile, Spent
from lab.report.build import page_script, render, write_slides
from lab.report.charts import Chart, html
from lab.report.figures_league import curves_chart, front_chart, measures_chart, plural, sets_chart
from lab.report.sections import Table
from lab.runs.notes import trial_line
from lab.studies.league.contest import Against, Contest
from lab.studies.league.league import League
from lab.studies.league.table import BOUNDED, COLUMNS, ITEMS, OVERALL, TOKENS, WHOLE, Cell, Row

PAGE, TEXT = "league.html", "league.md"
# Under a budget, a hit counts if the whole text of the memory is in the prompt; as configured, any hit does.
HEADLINE, OWN_HEADLINE = WHOLE, "hit"
MEANINGS = {
    "whole": "The whole text of a relevant memory is in the prompt. Only arms under a budget have it.",
    "hit": "A relevant memory is among the injected items.",
    "CleanHit": "The same, and no memory judged misleading is injected.",
    "nDCG": "How near the order of the injected items is to the ideal one.",
    "Present": "A relevant memory is among the injected items or a line of the Working Set.",
    "RepeatRate": "Share of a turn's items that were injected at one of the 6 recall turns before. Lower is better.",
    "FalseRecall": "Something is injected at a probe that needs no memory. Lower is better.",
    "StaleRecall": "A superseded memory is injected before or without its successor. Lower is better.",
    "StoreGrowth": "Memories that a capturing system keeps for each turn of the conversation.",
    "tokens": "Estimated tokens injected at a probe, mean.",
    "items": "Items injected at a probe, mean.",
}


def write_page(league: League, folder: Path, *, slides: bool = False) -> list[Path]:
    """Write ``league.html`` and ``league.md`` into the folder of a league; with ``slides`` also the figures.

    Return their paths.
    """
    found = _figures(league)
    drawn = [
        {"name": name, "chart": html(chart), "words": chart.words, "caption": caption}
        for name, (chart, caption) in found.items()
    ]
    model = model_of(league) | {"figures": drawn, "has_slides": slides, "script": page_script()}
    files = {folder / PAGE: render("league.html.j2", model), folder / TEXT: render("league.md.j2", model)}
    for path, content in files.items():
        write_atomically(path, content)
    return [*files, *(write_slides(folder, {name: chart for name, (chart, _) in found.items()}) if slides else ())]


def model_of(league: League) -> dict[str, Any]:
    """Return what both pages show, besides the figures."""
    trial = trial_line(league.trial)
    return {
        "title": "League of memory systems" + (" (trial)" if trial else ""),
        "trial": trial,
        "statements": statements(league),
        "winners": winners_table(league),
        "main": [_budget_table(league, OVERALL, league.overall, budget) for budget in (*league.budgets, None)]
        if league.overall
        else [],
        "sets": [
            {
                "name": name,
                "about": about,
                "tables": [
                    _budget_table(league, name, [row for row in league.rows if row.set == name], budget)
                    for budget in (*league.budgets, None)
                ],
            }
            for name, about in league.sets.items()
        ],
        "times": times_table(league),
        "standings": standings_table(league),
        "admissions": [admission.as_json() for admission in league.admissions],
        "meanings": {name: text for name, text in MEANINGS.items() if any(name in row.cells for row in league.rows)},
        "source": league.source,
        "least": max((contest.least for contest in league.contests), default=LEAST_CLUSTERS),
        "command": league.command,
    }


def statements(league: League) -> list[str]:
    """Return who wins at each budget, over all sets or the only one, by the headline measure."""
    where = OVERALL if league.overall else next(iter(league.sets))
    return [sentence(contest) for contest in league.contests if contest.set == where and contest.measure == HEADLINE]


def sentence(contest: Contest) -> str:
    """Return the result of a contest in words."""
    cell, over = contest.cell, "" if contest.set != OVERALL else " over all sets"
    bounds = "" if cell.low is None else f" (95 % interval {number(cell.low)} to {number(cell.high)})"
    named, share = plural(contest.measure), f"{number(cell.mean)}{bounds}"
    at = f"At {contest.budget:,} tokens"
    if not contest.against:
        return f"{at}, {contest.winner} has a share of {named}{over} of {share}; no other arm is ranked."
    if not cell.mean:
        return f"{at}, no ranked arm has any {named}{over}."
    first = [contest.winner, *contest.tied]
    parts = [f"{at}, {together(first)} {'have' if contest.tied else 'has'} the highest share of {named}{over}: {share}"]
    if not contest.is_testable:
        few = counted(contest.conversations, "conversation")
        return f"{parts[0]}. With {few}, no difference can be shown; it takes {contest.least}."
    it = contest.winner if contest.tied else "It"
    if contest.below:
        parts.append(f"{it} is shown to be above {', '.join(other.arm for other in contest.below)}")
    if contest.alike:
        alike = [f"{other.arm} ({signed(other.difference)}, p {_doubt(other)})" for other in contest.alike]
        parts.append(f"{it} is not shown to differ from {', '.join(alike)}")
    return ". ".join(parts) + "."


def _doubt(against: Against) -> str:
    """Return the corrected p of a difference that is not shown, and why a small one does not show it."""
    p = p_value(against.p_holm)
    return f"{p}, but the interval includes 0" if against.p_holm <= LEVEL else p


def winners_table(league: League) -> Table:
    """Return who wins on each set at each budget, and from whom the winner is not shown to differ."""
    rows = []
    for contest in league.contests:
        if contest.measure not in (HEADLINE, OWN_HEADLINE):
            continue
        alike = ", ".join(f"{other.arm} ({_doubt(other)})" for other in contest.alike) or "none"
        rows.append(
            [
                contest.set,
                plural(contest.measure),
                f"{contest.budget:,}",
                ", ".join((contest.winner, *contest.tied)),
                _bounded(contest.cell),
                f"{contest.conversations}",
                f"{len(contest.below)} of {len(contest.against)}" if contest.is_testable else "too few conversations",
                alike if contest.is_testable else "–",
                contest.turns.bounds if contest.turns else "–",
            ]
        )
    headers = (
        *("set", "measure", "tokens", "winner", "share", "conversations", "shown to be below"),
        *("not shown to differ (p)", "turns if wrong"),
    )
    return Table("Who wins at each budget", headers, rows)


def headline_rows(league: League) -> list[list[str]]:
    """Return the headline measure of every arm, as configured and at each budget."""
    rows = league.overall or league.rows
    arms = list(dict.fromkeys(row.arm for row in rows))
    return [[arm, *(_mean(rows, arm, budget) for budget in (None, *league.budgets))] for arm in arms]


def headline_columns(league: League) -> list[str]:
    """Return the headers of :func:`headline_rows`."""
    return [f"{HEADLINE} at", f"own, {OWN_HEADLINE}", *(f"{budget:,}" for budget in league.budgets)]


def _mean(rows: Sequence[Row], arm: str, budget: int | None) -> str:
    measure = OWN_HEADLINE if budget is None else HEADLINE
    return next((number(row.mean(measure)) for row in rows if (row.arm, row.budget) == (arm, budget)), "–")


def _budget_table(league: League, where: str, rows: Sequence[Row], budget: int | None) -> Table:
    """Return the figures of every arm at a budget, the best first; arms that are not ranked come last."""
    chosen = [row for row in rows if row.budget == budget]
    names = [name for name in COLUMNS if any(name in row.cells for row in chosen)]
    ranked = {standing.arm: standing.is_ranked for standing in league.standings}
    measure = OWN_HEADLINE if budget is None else HEADLINE
    chosen.sort(key=lambda row: (not ranked[row.arm], -(row.mean(measure) or 0.0)))
    cells = [
        [
            row.arm if ranked[row.arm] else f"{row.arm} (upper bound)",
            *(_shown(name, row.cells.get(name)) for name in names),
        ]
        for row in chosen
    ]
    at = "as configured" if budget is None else f"at {budget:,} tokens"
    return Table(f"{where[0].upper()}{where[1:]}, {at}", ("arm", *names), cells)


def _shown(name: str, cell: Cell | None) -> str:
    if name in (TOKENS, ITEMS) and cell is not None:
        return f"{cell.mean:,.1f}"
    return _bounded(cell) if name in BOUNDED else number(cell.mean if cell else None)


def _bounded(cell: Cell | None) -> str:
    """Return a mean with its interval."""
    if cell is None or cell.low is None:
        return number(cell.mean if cell else None)
    return f"{number(cell.mean)} ({number(cell.low)} … {number(cell.high)})"


def times_table(league: League) -> Table:
    """Return the median and the 95th percentile of a recall with the embedding of its prompt, as configured."""
    own = {(times.set, times.arm): times for times in league.times if times.budget is None}
    arms = list(dict.fromkeys(arm for _, arm in own))
    rows = [
        [arm, *(_spent(own[name, arm].with_embedding) if (name, arm) in own else "–" for name in league.sets)]
        for arm in arms
    ]
    return Table("Milliseconds of a recall with the embedding of its prompt, p50 / p95", ("arm", *league.sets), rows)


def _spent(spent: Spent) -> str:
    return " / ".join("–" if quantile is None else milliseconds(quantile.value) for quantile in _quantiles(spent))


def _quantiles(spent: Spent) -> tuple[Quantile | None, Quantile | None]:
    return spent.p50, spent.p95


def standings_table(league: League) -> Table:
    """Return how every arm takes part, and what it proved."""
    proofs = {entry.arm: ", ".join(proof.name for proof in entry.proofs if proof.held) for entry in league.admissions}
    rows = [
        [entry.arm, entry.system, entry.status, proofs.get(entry.arm, "–"), entry.reason or "–"]
        for entry in league.standings
    ]
    return Table(
        "Arms, what they proved, and why one is not ranked", ("arm", "system", "takes part", "proved", "reason"), rows
    )


def _figures(league: League) -> dict[str, tuple[Chart, str]]:
    """Return the charts, each with its caption."""
    drawn = {
        "curves": (curves_chart(league), "The measure that ranks the arms, over the token budgets."),
        "front": (front_chart(league), "What each arm injected, and how often it hit."),
        "measures": (measures_chart(league), "All sets together; a measure counts on the sets that have it."),
    }
    return drawn | ({"sets": (sets_chart(league), "The same lines for each set.")} if len(league.sets) > 1 else {})
