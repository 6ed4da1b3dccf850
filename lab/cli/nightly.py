"""``lab nightly`` and ``lab trend``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.baseline import today
from lab.cli.output import Json, announce, command_ci, emit, emit_folded, emit_json, emit_table

if TYPE_CHECKING:
    from lab.nightly.nightly_run import NightlyRun

STORE = Path("reports/trend")
Store = Annotated[
    Path, typer.Option(help="Where the history of nightly runs is kept, a Parquet file a nightly run and set.")
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("nightly")(nightly)
    app.command("trend")(trend)


def nightly(
    plan: Annotated[str, typer.Option(help="A plan (TOML), or the shipped one: shipped:operators.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the nightly run. [default: below reports/nightly, by date]")
    ] = None,
    date: options.Day = None,
    folder: options.BaselinesFolder = options.BASELINES,
    store: Store = STORE,
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Replay a plan twice, and hold it against what was approved.

    Exit codes, the gravest of all sets: 0 pass, 1 fail, 3 inconclusive (no baseline, or not comparable), 4 could not
    measure (a replay that does not reproduce itself).
    """
    from lab.gate.outputs import summary, workflow_commands
    from lab.nightly.nightly_run import run_nightly, write_nightly
    from lab.nightly.plan import read_plan
    from lab.report.nightly import write_pages

    nightly_run = run_nightly(
        read_plan(plan), out, date=date or today(), baselines=folder, store=store, jobs=jobs, announce=announce
    )
    files = [*write_pages(nightly_run), *write_nightly(nightly_run)]
    step = os.environ.get("GITHUB_STEP_SUMMARY")
    if step:
        with Path(step).open("a", encoding="utf-8", errors="replace") as opened:
            opened.write("\n".join(summary(one.verdict) for one in nightly_run.sets))
        for one in nightly_run.sets:
            for command in workflow_commands(one.verdict):
                command_ci(command)
    if as_json:
        emit_json(nightly_run.as_json() | {"folder": str(nightly_run.folder)})
    else:
        _show(nightly_run, files)
    raise typer.Exit(nightly_run.exit_code)


def _show(nightly_run: NightlyRun, files: list[Path]) -> None:
    from lab.gate.outputs import gravest_first
    from lab.runs.trial import trial_line

    said = trial_line(nightly_run.trial)
    emit_folded(
        f"{nightly_run.status.upper()}: {nightly_run.date}, plan {nightly_run.plan}{f' [{said}]' if said else ''}"
    )
    emit_table(
        ["set", "verdict", "not reproduced", "changed", "receipts"],
        [
            [
                one.name,
                one.verdict.status,
                one.again.changed if one.again else None,
                one.exact.changed if one.exact else None,
                one.again.turns if one.again else None,
            ]
            for one in nightly_run.sets
        ],
        left=2,
    )
    for one in nightly_run.sets:
        lines = gravest_first(one.verdict.lines)
        for line in lines:
            if line.critical:
                emit_folded(f"{one.name}: {line.status}: {line.reason}")
                if line.settles:
                    # Not folded: it is to be copied.
                    emit(f"  would settle it: {line.settles}")
        told = sum(not line.critical for line in lines)
        if told:
            emit_folded(f"{one.name}: {told} more did not pass; the policy only tells of them (see the page)")
    if nightly_run.approve_all:
        emit(f"all sets at once: {nightly_run.approve_all}")
    emit(f"{files[0]}, {', '.join(file.name for file in files[1:])}")


def trend(
    store: Store = STORE,
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="Show these measures. [default: the primary ones]")
    ] = None,
    arm: Annotated[list[str] | None, typer.Option("--arm", help="Show these arms. Repeat for more.")] = None,
    which: Annotated[list[str] | None, typer.Option("--set", help="Show these sets. Repeat for more.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The chart, without an ending. [default: trend, in the store]")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List series without a step, too.")] = False,
    as_json: Json = False,
) -> None:
    """Show the history of nightly runs: levels and steps.

    With what moved that nightly run, and a chart (SVG and PNG).
    """
    from lab.measures.catalogue import canonical
    from lab.nightly.trend import history, read_store, told_step
    from lab.report.figures import save
    from lab.report.figures_trend import trend_figure

    series = history(
        read_store(store), measures=[canonical(one) for one in measure or ()], arms=arm or (), sets=which or ()
    )
    files = save(trend_figure(series), out or store / "trend")
    found = [told_step(one, step) for one in series for step in one.steps]
    if as_json:
        emit_json(
            {
                "series": [
                    {"set": one.set, "arm": one.arm, "measure": one.measure}
                    | {"dates": [point.date for point in one.points], "means": [point.mean for point in one.points]}
                    for one in series
                ],
                "steps": found,
                "figures": [str(file) for file in files],
            }
        )
        return
    for one in sorted(found, key=lambda one: one["first"]):
        emit_folded(
            f"{one['first']} (after {one['last']}): {one['measure']} of {one['arm']} in {one['set']} "
            f"{one['before']:.4g} -> {one['after']:.4g}; {', '.join(one['moved']) or 'nothing moved that is known'}"
        )
    # Those that stepped most come first; of a hundred that did not, nobody reads the levels.
    shown = sorted((one for one in series if one.points and (every or one.steps)), key=lambda one: -len(one.steps))
    if shown:
        emit_table(
            ["set", "arm", "measure", "nights", "first", "last", "steps"],
            [
                [
                    one.set,
                    one.arm,
                    one.measure,
                    len(one.points),
                    *(one.points[at].mean for at in (0, -1)),
                    len(one.steps),
                ]
                for one in shown
            ],
            left=3,
        )
    without = sum(not one.steps for one in series)
    emit(f"{without} of {len(series)} series have no step" + ("" if every or not without else "; --all lists them"))
    emit(f"Charts: {', '.join(str(file) for file in files)}")
