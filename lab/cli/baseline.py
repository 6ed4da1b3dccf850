"""``lab nightly baseline``: approved runs, by name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.formatting import counted
from lab.cli import completion, options
from lab.cli.output import emit, emit_folded, emit_table, emit_trial
from lab.cli.results import Result, changed

if TYPE_CHECKING:
    from lab.nightly.baselines import Approval, Approved, Baseline

Name = Annotated[
    str, typer.Argument(metavar="NAME", autocompletion=completion.baselines, help="The name of a baseline.")
]
SHOWN = 12


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
) -> Result:
    """Approve a run, or all sets of a nightly run, as a baseline.

    Copies its manifest, receipts and gold into the baselines folder, under a name made of their checksum. A name that
    is approved again keeps its history.
    """
    from lab.base.errors import UnusableInput
    from lab.nightly.baselines import approve as approve_run
    from lab.nightly.baselines import is_nightly_run
    from lab.nightly.nightly_folder import runs_of_nightly_run
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
    records = [
        approval.baseline.as_json() | {"replaced": approval.replaced, "changed": approval.changed}
        for approval in approvals
    ]
    return Result(approvals, _show_approvals, lambda _: {"approved": records} if is_nightly_run(run) else records[0])


def _show_approvals(approvals: list[Approved]) -> None:
    for approval in approvals:
        name, now = approval.baseline.name, approval.baseline.now.object[:SHOWN]
        if not approval.changed:
            emit_folded(f"baseline {name} is already this run (kept as {now}); nothing changed")
        elif approval.replaced:
            emit_folded(f"baseline {name} is now this run (kept as {now}); before, it was {approval.replaced[:SHOWN]}")
        else:
            emit_folded(f"baseline {name} is now this run (kept as {now})")


def list_(folder: options.BaselinesFolder = options.BASELINES) -> Result:
    """List the baselines and check their files. Exit code 1 if a file has changed since the approval."""
    from lab.base.errors import CheckFailed
    from lab.nightly.baselines import baselines, damage

    checked = [(baseline, damage(baseline)) for baseline in baselines(folder)]
    damaged = [baseline.name for baseline, problems in checked if problems]

    def show(checked: Sequence[tuple[Baseline, Sequence[str]]]) -> None:
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

    return Result(
        checked,
        show,
        lambda checked: {"baselines": [one.as_json() | {"damage": problems} for one, problems in checked]},
        error=CheckFailed(f"{folder}: changed since the approval: {', '.join(damaged)}") if damaged else None,
    )


def show(name: Name, folder: options.BaselinesFolder = options.BASELINES) -> Result:
    """Show a baseline: its run, arms and earlier approvals. Fails, naming the file, if it is damaged."""
    from lab.nightly.baselines import get, open_baseline
    from lab.runs.notes import trial

    baseline = get(folder, name)
    run, now = open_baseline(baseline), baseline.now
    manifest = run.manifest
    facts: dict[str, Any] = {"path": str(baseline.path), "arms": run.arms, "conversations": run.conversations}
    facts |= {"run_key": manifest.run_key, "lab": manifest.resolved.lab, "commit": manifest.environment.commit}

    def show(facts: dict[str, Any]) -> None:
        emit_trial(facts["trial"])
        emit_folded(f"{name} is {_approved(now)}")
        emit_folded(f"{counted(len(facts['conversations']), 'conversation')}; arms {', '.join(facts['arms'])}")
        emit(f"lab {facts['lab']} {(facts['commit'] or '')[:SHOWN]}".strip())
        emit(facts["path"])
        for old in baseline.before:
            emit_folded(f"before: {_approved(old)}")

    return Result(baseline.as_json() | facts | {"trial": list(trial(manifest))}, show)


def _approved(state: Approval) -> str:
    return f"{state.object[:SHOWN]} since {state.date}" + (f" ({state.note})" if state.note else "")


def rm(
    name: Name,
    folder: options.BaselinesFolder = options.BASELINES,
    write: options.Write = False,
) -> Result:
    """Remove a baseline.

    Also removes the copies of its runs, unless another baseline uses them.
    """
    from lab.nightly.baselines import remove as remove_baseline
    from lab.nightly.baselines import unused_without

    objects = (remove_baseline if write else unused_without)(folder, name)
    counts = {"baselines": 1, "objects": len(objects)}

    def show(change: dict[str, Any]) -> None:
        did, done = ("removed", " removed") if change["written"] else ("would remove", "")
        emit(f"{did} {name}; copies{done}: {change['counts']['objects']}")

    receipt = {"counts": counts, "baselines": [name], "objects": objects}
    return changed("nightly baseline rm", folder, receipt, show, write=write)


# Of ``lab nightly baseline``.
baseline = (approve, list_, show, rm)
