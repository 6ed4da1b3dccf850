"""``lab nightly run`` and ``lab nightly trend``."""

from __future__ import annotations

from pathlib import Path
from shlex import quote, split
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import UnusableInput
from lab.cli import options
from lab.cli.baseline import today
from lab.cli.output import announce, emit, emit_folded, emit_notes, emit_table, report_to_ci
from lab.cli.results import Result
from lab.cli.study import finish
from lab.report.study import Part, Study

if TYPE_CHECKING:
    from lab.nightly.nightly_run import NightlyRun

IF_INTENDED = " (if the change is intended)"
STORE = Path("reports/trend")
Store = Annotated[
    Path, typer.Option(help="Folder of the history of nightly runs, with a Parquet file per nightly run and set.")
]


def run(
    plan: Annotated[str, typer.Option(help="A plan (TOML), or the shipped one: shipped:operators.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the nightly run. [default: reports/nightly/DATE]")
    ] = None,
    date: options.Day = None,
    folder: options.BaselinesFolder = options.BASELINES,
    store: Store = STORE,
    jobs: options.Jobs = 1,
) -> Result:
    """Replay a plan twice and compare it with approved baselines.

    Exit code, the most severe of all sets: 0 pass, 1 fail, 3 inconclusive (no baseline, or not comparable), 4 could
    not measure (the two replays differ).
    """
    from lab.nightly.nightly_run import run_nightly, write_nightly
    from lab.nightly.plan import read_plan
    from lab.report.nightly import write_pages

    nightly_run = run_nightly(
        read_plan(plan), out, date=date or today(), baselines=folder, store=store, jobs=jobs, announce=announce
    )
    files = [*write_pages(nightly_run, store), *write_nightly(nightly_run)]
    report_to_ci([result.verdict for result in nightly_run.sets])
    return Result(
        nightly_run,
        lambda nightly_run: _show(nightly_run, files),
        lambda nightly_run: nightly_run.as_json() | {"folder": str(nightly_run.folder)},
        error=typer.Exit(nightly_run.exit_code),
    )


def _show(nightly_run: NightlyRun, files: list[Path]) -> None:
    from lab.gate.line import ADDED, NOT_HERE, PASS
    from lab.gate.outputs import gravest_first
    from lab.gate.verdict import on_what
    from lab.runs.notes import trial_line

    warning = trial_line(nightly_run.trial)
    what = f"{nightly_run.date}, plan {nightly_run.plan}{f' [{warning}]' if warning else ''}"
    emit_folded(f"{nightly_run.status.upper()}{on_what(result.verdict for result in nightly_run.sets)}: {what}")
    emit_notes(nightly_run.notes)
    emit_table(
        ["set", "verdict", "not reproduced", "changed", "receipts"],
        [
            [
                result.name,
                result.verdict.status,
                result.again.changed if result.again else None,
                result.exact.changed if result.exact else None,
                result.again.turns if result.again else None,
            ]
            for result in nightly_run.sets
        ],
        left=2,
    )
    for result in nightly_run.sets:
        lines = gravest_first(result.verdict.lines)
        if result.apart:
            emit_folded(f"{result.name}: since {result.apart.since}: {result.apart.counts}")
            if result.apart.copy_note:
                emit_folded(result.apart.copy_note, "  ")
            for line in lines:
                if line.kind == ADDED and not line.critical and line.status != PASS:
                    emit_folded(f"{result.name}: apart, decides nothing: {line.status}: {line.reason}")
        if result.verdict.status == PASS and result.verdict.unmeasured:
            emit_folded(f"{result.name}: {NOT_HERE}: {', '.join(result.verdict.unmeasured)}")
        for line in lines:
            if line.critical:
                emit_folded(f"{result.name}: {line.status}: {line.reason}")
                if line.settles:
                    _show_settles(line.settles)
        advisory = sum(not line.critical for line in lines)
        if advisory:
            emit_folded(f"{result.name}: {advisory} advisory rules did not pass (see the page)")
    if nightly_run.approve_all:
        emit("all sets at once:")
        _show_command(nightly_run.approve_all)
    emit_folded(f"{files[0]}, {', '.join(file.name for file in files[1:])}")


def _show_settles(settles: str) -> None:
    """Print what would settle a rule: a command, which can be copied, or a sentence."""
    if settles.startswith("lab "):
        command = settles.removesuffix(IF_INTENDED)
        emit("  to resolve:" if command == settles else "  to resolve, if the change is intended:")
        _show_command(command)
    else:
        emit_folded(f"to resolve: {settles}", "  ")


def _show_command(command: str) -> None:
    from lab.cli.verdict_tables import emit_command

    emit_command([quote(word) for word in split(command)])


def trend(
    store: Store = STORE,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Show this measure. Repeat for more. [default: the primary ones]"),
    ] = None,
    arm: Annotated[
        list[str] | None, typer.Option("--arm", help="Show this arm. Repeat for more. [default: all]")
    ] = None,
    which: Annotated[
        list[str] | None, typer.Option("--set", help="Show this set. Repeat for more. [default: all]")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder of the page. [default: the store]")] = None,
    every: Annotated[bool, typer.Option("--all", help="Also list series without a step change.")] = False,
    slides: options.Slides = False,
) -> Result:
    """Show the history of nightly runs and its step changes.

    Lists what else changed with each step, and writes trend.html with a chart of every series.
    """
    from lab.measures.catalogue import canonical
    from lab.nightly.trend import history, read_store, step_record
    from lab.report.nightly import trend_chart

    series = history(
        read_store(store), measures=[canonical(name) for name in measure or ()], arms=arm or (), sets=which or ()
    )
    if not series:
        raise UnusableInput("no nightly runs to draw: the history has no such series")
    steps = [step_record(line, step) for line in series for step in line.steps]
    data = {
        "series": [
            {"set": line.set, "arm": line.arm, "measure": line.measure}
            | {"dates": [point.date for point in line.points], "means": [point.mean for point in line.points]}
            for line in series
        ],
        "steps": steps,
    }
    changes = [
        f"{step['first']} (after {step['last']}): {step['measure']} of {step['arm']} in {step['set']} "
        f"{step['before']:.4g} -> {step['after']:.4g}; "
        f"changed: {', '.join(step['moved']) or 'nothing that is recorded'}"
        for step in sorted(steps, key=lambda step: step["first"])
    ]
    # Most steps first. Series without a step are usually many and of little interest.
    shown = sorted(
        (line for line in series if line.points and (every or line.steps)), key=lambda line: -len(line.steps)
    )
    rows = [
        [
            *(line.set, line.arm, line.measure, len(line.points)),
            *(line.points[0].mean, line.points[-1].mean, len(line.steps)),
        ]
        for line in shown
    ]
    headers = ("set", "arm", "measure", "runs", "first", "last", "steps")
    without = sum(not line.steps for line in series)
    note = f"{without} of {len(series)} series have no step" + ("" if every or not without else "; --all lists them")
    chart = trend_chart(series)
    study = Study(
        "trend",
        {"trend": chart} if chart.panels else {},
        [Part("", headers, rows, 3)] if rows else [],
        data,
        changes,
        [note],
        command="lab nightly trend",
    )
    return finish(study, out or store, slides=slides)
