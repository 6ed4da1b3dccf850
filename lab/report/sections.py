"""The tables of a report: rows of text, limited in number, with the command that shows the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lab.compare.paired import Comparison
from lab.errors import UnusableInput
from lab.formatting import milliseconds, number
from lab.gate.outputs import by_status, clauses, deciding_first, headline, reason, rollback
from lab.gate.verdict import Verdict
from lab.gate.verdict_file import VERDICT, read_verdict, why_stale
from lab.latency.quantiles import Quantile, least_n
from lab.latency.turns import Stage
from lab.measures.catalogue import direction, entry_of
from lab.report.comparison import SLICED, sliced
from lab.runs.directory import RunDirectory

# Measures of safety checks and harms; the other measures are in the table of the arms. The first are cut at the number
# of items that every arm can inject.
CUT_HARMS = ("Forbidden", "CleanHit")
CONTRACT = (
    *("StaleRecall", "Future", "Duplicates", "Unescaped", "HardRules", "WrongScope", "AnyWrongScope"),
    *("BackboneDuplication", "BudgetEvictions", "FalseRecall", "FalseItems", "Leaks", "EchoShare"),
)
MOST_LINES, MOST_SLICES = 40, 30


class Table(NamedTuple):
    """Headers and rows; ``more`` counts the rows left out, and ``command`` is where to see them."""

    name: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0
    command: str = ""


def verdict_model(run: RunDirectory) -> tuple[dict[str, Any] | None, str | None]:
    """Return the texts of a run's current verdict or None, and why a stale verdict is not shown or None.

    Raises :class:`UnusableInput` if the file is not a verdict.
    """
    path = run.path / VERDICT
    if not path.is_file():
        return None, None
    verdict = read_verdict(path)
    try:
        stale = why_stale(verdict, run)
        model = None if stale else _verdict_texts(verdict)
    except (AttributeError, KeyError, TypeError) as error:
        # The field names are right, but a value is not.
        raise UnusableInput(
            f"{path}: not a verdict of `lab gate` ({error}); remove it, or run `lab gate` again"
        ) from None
    return model, f"{VERDICT} is stale and is not shown: {stale}. Run lab gate again." if stale else None


def _verdict_texts(verdict: Verdict) -> dict[str, Any]:
    order = deciding_first(verdict.lines)
    rows = [
        [line.status if line.critical else f"({line.status})", line.name, reason(line)] for line in order[:MOST_LINES]
    ]
    return {
        "status": verdict.status,
        "headline": headline(verdict),
        "clauses": [f"{clause[0].upper()}{clause[1:]}." for clause in clauses(verdict)],
        "rollback": rollback(verdict),
        "by_status": by_status(verdict.lines),
        "has_slices": any(line.kind == "slice" for line in verdict.lines),
        "rules": Table("Rules", ("status", "rule", "why"), rows, max(0, len(order) - MOST_LINES), "verdict.json"),
    }


def contract_table(arms: Mapping[str, Any], cutoff: int) -> Table:
    """Return safety checks and harms by arm; a harm that never occurred is shown with its upper 95 % bound."""
    measures = (*(f"{name}@{cutoff}" for name in CUT_HARMS), *CONTRACT)
    names = [name for name in measures if any(means["measures"].get(name) is not None for means in arms.values())]
    rows = [[arm, *(_kept(means, name) for name in names)] for arm, means in arms.items()] if names else []
    return Table("Safety checks and harms of every arm", ("arm", *names), rows)


def _kept(arm: Mapping[str, Any], name: str) -> str:
    value, unseen = arm["measures"].get(name), arm["unseen"].get(name)
    if value is None:
        return "–"
    return f"0 (≤ {unseen['at_most']:.2%})" if unseen else f"{value:.4f}"


def meanings(names: Sequence[str]) -> dict[str, str]:
    """Return the definitions of some measures, and which direction is better."""
    entries = {name: entry_of(name) for name in names}
    return {
        name: f"{entry.definition} {direction(name).capitalize()} is better."
        for name, entry in entries.items()
        if entry
    }


def slice_tables(
    slices: Mapping[str, Any], arms: Sequence[str], cutoff: int, comparison: Comparison | None
) -> list[Table]:
    """Return tables of the differences by slice, worst first, then of the hits of every arm by slice.

    The last table has the forbidden memories that every arm injects by planted condition.
    """
    tables = []
    if comparison:
        for measure in dict.fromkeys(part.difference.measure for part in comparison.slices):
            parts = [part for part in comparison.slices if part.difference.measure == measure]
            command = f"lab compare DIR --baseline {comparison.baseline} --candidate {comparison.candidate} --json"
            rows = [sliced(part) for part in parts[:MOST_SLICES]]
            left_out = max(0, len(parts) - MOST_SLICES)
            tables.append(Table(f"{measure}: differences, worst first", SLICED, rows, left_out, command))
    shown = [(f"Success@{cutoff}", name, values) for name, values in slices.items()]
    # What a planted condition tempts an arm to inject is counted by another measure than its hits.
    shown += [(f"Forbidden@{cutoff}", name, values) for name, values in slices.items() if name == "condition"]
    for hit, name, values in shown:
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
    """Return milliseconds by arm and stage; a quantile is given only if there are enough turns for its interval."""
    if not stages:
        return None
    rows = [
        [
            f"{stage.arm}: {stage.stage}",
            f"{stage.spent.n:,}",
            milliseconds(stage.spent.mean or 0.0),
            *map(_quantile, stage.spent[2:]),
        ]
        for stage in stages
    ]
    return Table(
        f"Milliseconds by stage; p95 needs {least_n(0.95)} turns, p99 {least_n(0.99)}",
        ("arm and stage", "turns", "mean", "p50", "p95", "p99"),
        rows,
    )


def _quantile(value: Quantile | None) -> str:
    return "n too small" if value is None else "{} ({} … {})".format(*map(milliseconds, value))
