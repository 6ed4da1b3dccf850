"""``lab nightly baseline``: approved runs, by name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.formatting import counted
from lab.cli import completion, options
from lab.cli.output import Json, emit, emit_change, emit_folded, emit_json, emit_table, emit_trial, emit_unless_written

if TYPE_CHECKING:
    from lab.nightly.baselines import Approved

Name = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=completion.baselines, help="The name of a baseline.")
]
SHOWN = 12


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="Manage baselines: approved runs, by name.")
    group.command("approve")(approve)
    group.command("list")(list_baselines)
    group.command("show")(show)
    group.command("rm")(remove)
    app.add_typer(group, name="baseline")


def today() -> str:
    """Return today's local date. Nothing but the command line reads the wall clock."""
    return datetime.now().astimezone().date().isoformat()


def approve(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="A finished run directory, or the folder of a nightly run.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Name of the baseline. Omit it for a nightly run, whose sets have names.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="Why the run is approved; kept with the name.")] = None,
    folder: options.BaselinesFolder = options.BASELINES,
    date: options.Day = None,
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Approve a run, or all sets of a nightly run, as a baseline.

    Copies its manifest, receipts and gold into the baselines folder, under a name made of their checksum. A name that
    is approved again keeps its history.
    """
    from lab.base.errors import UnusableInput
    from lab.nightly.baselines import approve as approve_run
    from lab.nightly.nightly_folder import is_nightly_run, runs_of_nightly_run
    from lab.runs.directory import open_run

    if is_nightly_run(run):
        if name is not None:
            raise UnusableInput(f"{run}: is a nightly run, whose sets have their own names; omit --name")
        runs = runs_of_nightly_run(run)
    elif name is None:
        raise UnusableInput(f"{run}: a baseline needs a name; give --name NAME")
    else:
        runs = {name: open_run(run, allow_failed=allow_failed)}
    approvals = [
        approve_run(folder, opened, set_name, date=date or today(), note=note) for set_name, opened in runs.items()
    ]
    if as_json:
        records = [
            approval.baseline.as_json() | {"replaced": approval.replaced, "changed": approval.changed}
            for approval in approvals
        ]
        emit_json({"approved": records} if is_nightly_run(run) else records[0])
        return
    for approval in approvals:
        _emit_approval(approval)


def _emit_approval(approval: Approved) -> None:
    name, now = approval.baseline.name, approval.baseline.now.object[:SHOWN]
    if not approval.changed:
        emit_folded(f"baseline {name} is already this run (kept as {now}); nothing changed")
    elif approval.replaced:
        emit_folded(f"baseline {name} is now this run (kept as {now}); before, it was {approval.replaced[:SHOWN]}")
    else:
        emit_folded(f"baseline {name} is now this run (kept as {now})")


def list_baselines(folder: options.BaselinesFolder = options.BASELINES, as_json: Json = False) -> None:
    """List the baselines and check their files. Exit code 1 if a file has changed since the approval."""
    from lab.base.errors import CheckFailed
    from lab.nightly.baselines import baselines, damage

    checked = [(baseline, damage(baseline)) for baseline in baselines(folder)]
    if as_json:
        emit_json({"baselines": [baseline.as_json() | {"damage": problems} for baseline, problems in checked]})
    else:
        emit_table(
            ["name", "since", "object", "state", "note"],
            [
                [name, now.date, now.object[:SHOWN], "damaged" if problems else "ok", now.note]
                for name, now, problems in ((baseline.name, baseline.now, problems) for baseline, problems in checked)
            ],
            left=5,
        )
        for _, problems in checked:
            for problem in problems:
                emit(problem)
    damaged = [baseline.name for baseline, problems in checked if problems]
    if damaged:
        raise CheckFailed(f"{folder}: changed since the approval: {', '.join(damaged)}")


def show(name: Name, folder: options.BaselinesFolder = options.BASELINES, as_json: Json = False) -> None:
    """Show a baseline: its run, arms and earlier approvals. Fails, naming the file, if it is damaged."""
    from lab.nightly.baselines import get, open_baseline
    from lab.runs.notes import trial

    baseline = get(folder, name)
    run, now = open_baseline(baseline), baseline.now
    path, lab, commit = str(baseline.path), run.manifest.resolved.lab, run.manifest.environment.commit
    reasons = trial(run.manifest)
    if as_json:
        facts: dict[str, object] = {"path": path, "arms": run.arms, "conversations": run.conversations}
        facts |= {"run_key": run.manifest.run_key, "lab": lab, "commit": commit, "trial": list(reasons)}
        emit_json(baseline.as_json() | facts)
        return
    emit_trial(reasons)
    emit_folded(f"{name} is {now.object[:SHOWN]} since {now.date}" + (f" ({now.note})" if now.note else ""))
    emit_folded(f"{counted(len(run.conversations), 'conversation')}; arms {', '.join(run.arms)}")
    emit(f"lab {lab} {(commit or '')[:SHOWN]}".strip())
    emit(path)
    for old in baseline.before:
        emit_folded(f"before: {old.object[:SHOWN]} since {old.date}" + (f" ({old.note})" if old.note else ""))


def remove(
    name: Name,
    folder: options.BaselinesFolder = options.BASELINES,
    write: options.Write = False,
    as_json: Json = False,
) -> None:
    """Remove a baseline.

    Also removes the copies of its runs, unless another baseline uses them.
    """
    from lab.nightly.baselines import remove as remove_baseline
    from lab.nightly.baselines import unused_without

    objects = (remove_baseline if write else unused_without)(folder, name)
    if as_json:
        emit_change("nightly baseline rm", folder, {"removed": name, "objects": objects}, write=write)
        return
    did, done = ("removed", " removed") if write else ("would remove", "")
    emit(f"{did} {name}; copies{done}: {len(objects)}")
    emit_unless_written(write)
