"""``lab baseline``: runs that were approved, by name."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table, emit_trial
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.nightly.baselines import Approved

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a baseline.")]
SHOWN = 12


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, help="Baselines: runs that were approved, by name.")
    group.command("approve")(approve)
    group.command("list")(list_baselines)
    group.command("show")(show)
    group.command("rm")(remove)
    app.add_typer(group, name="baseline")


def today() -> str:
    """The day, where a command was handed none: the edge at which the wall clock is read."""
    return datetime.now().astimezone().date().isoformat()


def approve(
    run: Annotated[
        Path, typer.Argument(metavar="DIR", help="A finished run directory, or the folder of a nightly run.")
    ],
    name: Annotated[
        str | None, typer.Option(help="What the baseline is called; the sets of a nightly run have their own names.")
    ] = None,
    note: Annotated[str | None, typer.Option(help="Why: a sentence that stays with the name.")] = None,
    folder: options.BaselinesFolder = options.BASELINES,
    date: options.Day = None,
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Keep a run, or all of a nightly run, as what later ones are held to.

    A copy of its manifest, receipts and gold, named by its content. A name that meant another run remembers it.
    """
    from lab.errors import UnusableInput
    from lab.nightly.baselines import approve as keep
    from lab.nightly.nightly_folder import is_nightly_run, runs_of_nightly_run
    from lab.runs.directory import open_run

    if is_nightly_run(run):
        if name is not None:
            raise UnusableInput(f"{run}: is a nightly run, whose sets have names of their own; leave --name out")
        runs = runs_of_nightly_run(run)
    elif name is None:
        raise UnusableInput(f"{run}: a run needs a name: --name NAME")
    else:
        runs = {name: open_run(run, allow_failed=allow_failed)}
    found = [keep(folder, one, called, date=date or today(), note=note) for called, one in runs.items()]
    if as_json:
        told = [one.baseline.as_json() | {"replaced": one.replaced, "changed": one.changed} for one in found]
        emit_json({"approved": told} if is_nightly_run(run) else told[0])
        return
    for one in found:
        _tell(one)


def _tell(found: Approved) -> None:
    name, now = found.baseline.name, found.baseline.now.object[:SHOWN]
    if not found.changed:
        emit(f"{name} is {now} already; nothing changed")
    elif found.replaced:
        emit(f"{name} is {now} now; it was {found.replaced[:SHOWN]}")
    else:
        emit(f"{name} is {now} now")


def list_baselines(folder: options.BaselinesFolder = options.BASELINES, as_json: Json = False) -> None:
    """List the baselines, and whether their files are unchanged. Exit code 1 where one is not as it was approved."""
    from lab.errors import CheckFailed
    from lab.nightly.baselines import baselines, damage

    found = [(one, damage(one)) for one in baselines(folder)]
    if as_json:
        emit_json({"baselines": [one.as_json() | {"damage": problems} for one, problems in found]})
    else:
        emit_table(
            ["name", "since", "object", "state", "note"],
            [
                [one.name, one.now.date, one.now.object[:SHOWN], "damaged" if problems else "whole", one.now.note]
                for one, problems in found
            ],
            left=5,
        )
        for _, problems in found:
            for problem in problems:
                emit(problem)
    damaged = [one.name for one, problems in found if problems]
    if damaged:
        raise CheckFailed(f"{folder}: not as they were approved: {', '.join(damaged)}")


def show(name: Name, folder: options.BaselinesFolder = options.BASELINES, as_json: Json = False) -> None:
    """Show one baseline: what it is of, its arms, what it was before. A damaged one is an error that names the file."""
    from lab.nightly.baselines import get, open_baseline
    from lab.runs.trial import trial

    found = get(folder, name)
    run = open_baseline(found)
    path, lab, commit = str(found.path), run.manifest.resolved.lab, run.manifest.environment.commit
    reasons = trial(run.manifest)
    if as_json:
        facts: dict[str, object] = {"path": path, "arms": run.arms, "conversations": run.conversations}
        facts |= {"run_key": run.manifest.run_key, "lab": lab, "commit": commit, "trial": list(reasons)}
        emit_json(found.as_json() | facts)
        return
    emit_trial(reasons)
    since = f" ({found.now.note})" if found.now.note else ""
    emit_folded(f"{name} is {found.now.object[:SHOWN]} since {found.now.date}{since}")
    emit_folded(f"{counted(len(run.conversations), 'conversation')} through {', '.join(run.arms)}")
    emit(f"lab {lab} {(commit or '')[:SHOWN]}".strip())
    emit(path)
    for one in found.before:
        emit_folded(f"before: {one.object[:SHOWN]} since {one.date}" + (f" ({one.note})" if one.note else ""))


def remove(name: Name, folder: options.BaselinesFolder = options.BASELINES, as_json: Json = False) -> None:
    """Forget a name, and remove runs that no other name means or meant."""
    from lab.nightly.baselines import remove as forget

    gone = forget(folder, name)
    if as_json:
        emit_json({"removed": name, "objects": gone})
    else:
        emit(f"forgot {name}; objects removed: {len(gone)}")
