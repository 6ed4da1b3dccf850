"""The tables of a report as rows of text, each cut to what a page can hold, with the command that shows the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lab.compare.paired import Comparison
from lab.errors import UnusableInput
from lab.formatting import milliseconds, number
from lab.gate.line import FAIL
from lab.gate.outputs import deciding_first, headline, reason, rollback
from lab.gate.recorded import VERDICT, read_verdict, why_stale
from lab.gate.verdict import Verdict
from lab.latency.quantiles import Quantile, least_n
from lab.latency.turns import Stage
from lab.measures.catalogue import direction, entry_of
from lab.report.comparison import SLICED, sliced
from lab.runs.directory import RunDirectory

# What an engine promises, or is told of every block; the rest of the measures are in the table of the arms.
CONTRACT = (
    *("Future", "Duplicates", "Unescaped", "HardRules", "WrongScope", "AnyWrongScope", "StaleRecall"),
    *("BackboneDuplication", "BudgetEvictions", "FalseRecall", "FalseItems"),
)
MOST_LINES, MOST_SLICES = 40, 30


class Table(NamedTuple):
    """Headers and rows; ``more`` rows were left out, which ``command`` shows."""

    name: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0
    command: str = ""


def verdict_model(run: RunDirectory) -> tuple[dict[str, Any] | None, str | None]:
    """The verdict of a gate in words, if the run has one that is current; and why one that it has is not shown.

    A file that is no verdict of ours is :class:`UnusableInput`.
    """
    path = run.path / VERDICT
    if not path.is_file():
        return None, None
    found = read_verdict(path)
    try:
        stale = why_stale(found, run)
        told = None if stale else _told(found)
    except (AttributeError, KeyError, TypeError) as error:
        # Its fields have the right names, and what stands in one is none of ours.
        raise UnusableInput(f"{path}: is no verdict of a gate ({error}); remove it, or judge again") from None
    return told, f"{VERDICT} is stale and is not shown: {stale}. Judge again with lab gate." if stale else None


def _told(verdict: Verdict) -> dict[str, Any]:
    order = deciding_first(verdict.lines)
    rows = [[one.status if one.critical else f"({one.status})", one.name, reason(one)] for one in order[:MOST_LINES]]
    return {
        "status": verdict.status,
        "headline": headline(verdict),
        "about": verdict.about,
        "rollback": rollback(verdict),
        "failing": [one.name for one in verdict.lines if one.status == FAIL and not one.critical],
        "rules": Table("Rules", ("status", "rule", "why"), rows, max(0, len(order) - MOST_LINES), "verdict.json"),
    }


def contract_table(arms: Mapping[str, Any]) -> Table:
    """What every arm kept of what it promises; where a harm never happened, how often it may all the same."""
    names = [name for name in CONTRACT if any(one["measures"].get(name) is not None for one in arms.values())]
    rows = [[arm, *(_kept(one, name) for name in names)] for arm, one in arms.items()] if names else []
    return Table("What every arm kept", ("arm", *names), rows)


def _kept(arm: Mapping[str, Any], name: str) -> str:
    value, unseen = arm["measures"].get(name), arm["unseen"].get(name)
    if value is None:
        return "–"
    return f"0 (≤ {unseen['at_most']:.2%})" if unseen else f"{value:.4f}"


def meanings(names: Sequence[str]) -> dict[str, str]:
    """What some measures say, and which way is better."""
    entries = {name: entry_of(name) for name in names}
    return {name: f"{one.definition} {direction(name).capitalize()} is better." for name, one in entries.items() if one}


def slice_tables(
    slices: Mapping[str, Any], arms: Sequence[str], cutoff: int, comparison: Comparison | None
) -> list[Table]:
    """Differences by slice, the worst first, and then the hits of every arm by each slice."""
    tables = []
    if comparison:
        for measure in dict.fromkeys(one.difference.measure for one in comparison.slices):
            own = [one for one in comparison.slices if one.difference.measure == measure]
            command = f"lab compare DIR --baseline {comparison.baseline} --candidate {comparison.candidate} --json"
            rows = [sliced(one) for one in own[:MOST_SLICES]]
            tables.append(
                Table(f"{measure}: differences, the worst first", SLICED, rows, max(0, len(own) - MOST_SLICES), command)
            )
    hit = f"Success@{cutoff}"
    for name, values in slices.items():
        if not any(means[arm]["measures"].get(hit) is not None for means in values.values() for arm in arms):
            continue
        rows = [
            [
                value,
                str(means[arms[0]]["n"]),
                *(number(means[arm]["measures"].get(hit)) for arm in arms),
            ]
            for value, means in list(values.items())[:MOST_SLICES]
        ]
        more = max(0, len(values) - MOST_SLICES)
        tables.append(Table(f"{hit} by {name}", (name, "n", *arms), rows, more, "lab score DIR --slices"))
    return tables


def stage_table(stages: Sequence[Stage]) -> Table | None:
    """Milliseconds by arm and stage; a quantile only where there are turns enough for its interval."""
    if not stages:
        return None
    rows = [
        [
            f"{one.arm}: {one.stage}",
            f"{one.spent.n:,}",
            milliseconds(one.spent.mean or 0.0),
            *map(_quantile, one.spent[2:]),
        ]
        for one in stages
    ]
    return Table(
        f"Milliseconds by stage; p95 needs {least_n(0.95)} turns, p99 {least_n(0.99)}",
        ("arm and stage", "turns", "mean", "p50", "p95", "p99"),
        rows,
    )


def _quantile(one: Quantile | None) -> str:
    return "n too small" if one is None else "{} ({} … {})".format(*map(milliseconds, one))
