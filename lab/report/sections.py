"""The tables of a report: rows of text, limited in number, with the command that shows the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lab.base.formatting import counted, milliseconds, p_value, sentence
from lab.compare.paired import Comparison, Difference, Slice
from lab.gate.line import Line, deciding
from lab.gate.measures import CLAIMS
from lab.gate.outputs import by_status, clauses, deciding_first, headline, read_verdict, rollback
from lab.gate.rejudge import Stale, rejudge
from lab.gate.verdict import Verdict
from lab.measures.catalogue import direction, entry_of, widest
from lab.measures.inputs import WINDOW
from lab.measures.latency import Quantile, Spent, Stage, least_n
from lab.measures.model import TOTAL
from lab.report.comparison import reading
from lab.report.opening import in_percent
from lab.report.units import NO_BREAK, change_of, is_share, mean_of, percent, span_of
from lab.runs.directory import VERDICT, RunDirectory

# Measures of safety checks and harms; the other measures are in the table of the arms. The first are cut at the number
# of items that every arm can inject.
CUT_HARMS = ("Forbidden", "CleanHit")
CONTRACT = (
    *("StaleRecall", "Future", "Duplicates", "Unescaped", "HardRules", "WrongScope", "AnyWrongScope"),
    *("BackboneDuplication", "BudgetEvictions", "FalseRecall", "FalseItems", "Leaks", "EchoShare"),
)
MOST_LINES, MOST_SLICES = 40, 30
RULE = ("status", "rule", "candidate", "reference or limit", "difference", "interval", "what follows")
COMPARED = (
    *("measure", "reading", "baseline", "candidate", "difference", "95 % interval", "p"),
    *("up/same/down", "deff", "MDE"),
)
SLICED = ("slice", "n", "baseline", "difference", "95 % interval", "MDE")


class Table(NamedTuple):
    """Headers and rows; ``more`` counts the rows left out, and ``command`` is where to see them."""

    name: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: int = 0
    command: str = ""


def verdict_model(run: RunDirectory) -> tuple[dict[str, Any] | None, str | None]:
    """Return the texts of a run's current verdict or None, and why a stale verdict is not shown or None.

    Raises :class:`lab.base.errors.UnusableInput` if the file is not a verdict.
    """
    path = run.path / VERDICT
    if not path.is_file():
        return None, None
    try:
        return _verdict_texts(rejudge(read_verdict(path), run.path, run)), None
    except Stale as stale:
        return None, f"{VERDICT} is stale and is not shown: {stale}. Run lab gate again."


def _verdict_texts(verdict: Verdict) -> dict[str, Any]:
    order = deciding_first(verdict.lines)
    open_rules = [line for line in deciding(order) if line.status != "pass"]
    others = [line for line in order if line not in open_rules]
    return {
        "of": verdict,
        "status": verdict.status,
        "headline": headline(verdict),
        "clauses": [sentence(in_percent(clause)) for clause in clauses(verdict)],
        "rollback": rollback(verdict),
        "by_status": by_status(verdict.lines),
        "has_slices": any(line.kind == "slice" for line in verdict.lines),
        "rules": _rules("Rules that did not pass", open_rules),
        "others": _rules("Other rules", others),
    }


def rule_row(line: Line) -> list[str]:
    """Return the cells under :data:`RULE`; a status in brackets is that of an advisory rule."""
    measure = line.measure
    interval = "–"
    if line.low is not None and line.difference is not None:
        interval = f"{span_of(measure, line.low, line.high)} ({100 * (line.confidence or 0.9):g}{NO_BREAK}%)"
    return [
        line.word,
        line.name,
        mean_of(measure, line.candidate),
        mean_of(measure, line.baseline) if line.baseline is not None else line.limit or "–",
        change_of(measure, line.difference),
        interval,
        conclusion(line),
    ]


def conclusion(line: Line) -> str:
    """Return what follows for a rule from its numbers, in the units of the page, and what would settle it."""
    settles = f" To settle it: {line.settles.replace('`', '')}." if line.settles else ""
    if line.low is None or line.difference is None or line.threshold is None:
        why = line.reason.removeprefix(f"{line.label}: ").removeprefix(f"{line.measure}: ")
        return f"{in_percent(why.replace('`', ''))}.{settles}"
    amount = change_of(line.measure, line.threshold, unit=is_share(line.measure)).lstrip("+")
    by = f" by more than {amount}" if line.threshold else ""
    if line.kind in CLAIMS:
        said = {"pass": "shown to be better", "fail": "shown not to be better"}.get(
            line.status, "not shown to be better"
        )
    else:
        said = {"pass": "shown not to be worse", "fail": "shown to be worse"}.get(line.status, "may be worse")
    return f"{said}{by}, over {counted(line.conversations or 0, 'conversation')}.{settles}"


def _rules(name: str, lines: Sequence[Line]) -> Table:
    rows = [rule_row(line) for line in lines[:MOST_LINES]]
    return Table(name, RULE, rows, max(0, len(lines) - MOST_LINES), VERDICT)


def contract_table(arms: Mapping[str, Any], cutoff: int) -> Table:
    """Return safety checks and harms by arm; a harm that never occurred is shown with its upper 95 % bound."""
    measures = (*(f"{name}@{cutoff}" for name in CUT_HARMS), *CONTRACT)
    names = [name for name in measures if any(means["measures"].get(name) is not None for means in arms.values())]
    rows = [[arm, *(_harm(means, name) for name in names)] for arm, means in arms.items()] if names else []
    return Table("Safety checks and harms of every arm", ("arm", *names), rows)


def _harm(arm: Mapping[str, Any], name: str) -> str:
    value, unseen = arm["measures"].get(name), arm["unseen"].get(name)
    if value is None:
        return "–"
    return f"0 (≤{NO_BREAK}{percent(unseen['at_most'], 2)})" if unseen else mean_of(name, value)


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
            rows = [_sliced(part) for part in parts[:MOST_SLICES]]
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
                *(mean_of(hit, means[arm]["measures"].get(hit)) for arm in arms),
            ]
            for value, means in list(values.items())[:MOST_SLICES]
        ]
        more = max(0, len(values) - MOST_SLICES)
        tables.append(Table(f"{hit} by {name}", (name, "n", *arms), rows, more, "lab score DIR --slices"))
    return tables


def _sliced(part: Slice) -> list[str]:
    measure, estimate = part.difference.measure, part.difference.estimate
    return [
        f"{part.name} = {part.value}",
        str(part.difference.n),
        mean_of(measure, part.difference.baseline),
        change_of(measure, estimate.mean),
        span_of(measure, estimate.low, estimate.high),
        detectable(part.difference),
    ]


def compared_table(comparison: Comparison, differences: Sequence[Difference]) -> Table:
    """Return the differences of two arms in the units of the page."""
    rows = [_compared(difference, comparison.family) for difference in differences]
    return Table(f"{comparison.candidate} minus {comparison.baseline}", COMPARED, rows)


def _compared(difference: Difference, family: int) -> list[str]:
    measure, estimate = difference.measure, difference.estimate
    return [
        measure,
        reading(difference, family).partition("; MDE")[0],
        mean_of(measure, difference.baseline),
        mean_of(measure, difference.candidate),
        change_of(measure, estimate.mean),
        span_of(measure, estimate.low, estimate.high),
        p_value(difference.p) if difference.p_holm is None else p_value(difference.p_holm),
        f"{difference.wins}/{difference.ties}/{difference.losses}",
        "–" if estimate.design_effect is None else f"{estimate.design_effect:.2f}",
        detectable(difference),
    ]


def detectable(difference: Difference) -> str:
    """Return the minimum detectable effect, without a sign: "none" if no difference can be so large."""
    effect, most = difference.estimate.detectable, widest(difference.measure)
    if not effect:
        return "–"
    return "none" if most is not None and effect > most else change_of(difference.measure, effect).lstrip("+")


def card_table(
    arms: Mapping[str, Any],
    stages: Sequence[Stage],
    cutoff: int,
    mean: Callable[[str, float | None], str] = mean_of,
) -> Table:
    """Return hits, repeat dominance, items, and p50/p95 of a turn and of its stages in milliseconds, by arm.

    These are what a change of the engine is judged by first: hit@k and latency (seed 001, line 387), and whether the
    same items dominate consecutive turns (seed 000, criterion 2). ``mean`` writes the mean of a measure.
    """
    measures = {f"hit@{cutoff}": f"Success@{cutoff}", "RepeatDominance": "RepeatDominance", "items": "InjectedItems"}
    times = {(one.arm, one.stage): one.spent for one in stages}
    parts = sorted({stage for _, stage in times}, key=lambda stage: (stage != TOTAL, stage))
    rows = [
        [
            arm,
            *(mean(name, means["measures"].get(name)) for name in measures.values()),
            *(_p50_p95(times.get((arm, part))) for part in parts),
        ]
        for arm, means in arms.items()
    ]
    headers = ("arm", *measures, *("turn" if part == TOTAL else part for part in parts))
    return Table("Hits, repeat dominance, and milliseconds by stage (p50/p95)", headers, rows)


def _p50_p95(spent: Spent | None) -> str:
    quantiles = (spent.p50, spent.p95) if spent else ()
    return "/".join("–" if one is None else milliseconds(one.value) for one in quantiles) or "–"


def card_note(cutoff: int, stages: Sequence[Stage]) -> str:
    """Return what a reader of :func:`card_table` must know: other names, and what was not measured."""
    timed = (
        f"Times are of warm turns; p50 needs {least_n(0.5)} of them, p95 {least_n(0.95)}. Not measured: the embedding "
        "of the prompt, which a replay makes before (lab study league times it)."
    )
    return (
        f"hit@{cutoff} is Success@{cutoff}. RepeatDominance is the share of the slots of {WINDOW} turns that one "
        "memory fills, which is 1 / items at most: compare arms with equally many items. "
        f"{timed if stages else 'The run has no timings.'}"
    )


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
