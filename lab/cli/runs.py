"""``lab runs``: list, merge, export, remove, and the schema of a manifest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.formatting import counted
from lab.cli import options
from lab.cli.output import SHOWN, announce, emit, emit_folded, emit_indented, emit_next, emit_table
from lab.cli.results import Result, changed
from lab.cli.trec import export, import_

# Figures that commands other than `lab report` may write into a run.
OF_COMMANDS = ("ablation",)


def list_(
    root: Annotated[Path, typer.Argument(help="Folder to search, with its subfolders.")] = Path("reports"),
) -> Result:
    """List the runs below a folder.

    Runs inside baselines and nightly runs are only counted.
    """
    from lab.base.errors import Altered, UnusableInput
    from lab.nightly.baselines import is_object, nightly_run_of
    from lab.runs.directory import open_run
    from lab.runs.notes import trial

    if not root.is_dir():
        raise UnusableInput(f"{root}: no such folder")
    runs: list[dict[str, Any]] = []
    approved = of_nightly_runs = 0
    for manifest in sorted(root.rglob("manifest.json")):
        try:
            run = open_run(manifest.parent)
            done = len(run.done())
        except UnusableInput:
            continue  # another program's manifest, or a damaged one
        except Altered as error:
            announce(str(error))
            continue
        nightly_run = nightly_run_of(run.path)
        if is_object(run.path):
            approved += 1
            continue
        # List the runs of a nightly run only if ``root`` is inside it.
        if nightly_run is not None and nightly_run.resolve() not in (root.resolve(), *root.resolve().parents):
            of_nightly_runs += 1
            continue
        facts = {
            "run": str(run.path),
            "status": run.manifest.status,
            "done": done,
            "conversations": len(run.assigned),
            "arms": run.arms,
            "trial": list(trial(run.manifest)),
        }
        runs.append(facts | ({"shard": str(run.shard)} if run.shard else {}))

    def show(runs: list[dict[str, Any]]) -> None:
        emit_table(["run", "status", "done", "arms"], list(map(_row, runs)), left=4)
        if approved:
            emit_folded(f"not listed: {approved} approved; see `lab nightly baseline list`")
        if of_nightly_runs:
            emit_folded(f"not listed: {of_nightly_runs} of nightly runs; give the folder of a nightly run to list them")

    return Result(runs, show, lambda runs: {"runs": runs})


def _row(run: dict[str, Any]) -> list[object]:
    from lab.runs.notes import TITLE

    remarks = [*([f"shard {run['shard']}"] if "shard" in run else []), *([TITLE] if run["trial"] else [])]
    status = run["status"] + (f" ({', '.join(remarks)})" if remarks else "")
    return [run["run"], status, f"{run['done']}/{run['conversations']}", ", ".join(run["arms"])]


def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The run directory to create.")],
    shards: Annotated[list[Path], typer.Argument(metavar="SHARD…", help="Every shard of the run, in any order.")],
) -> Result:
    """Merge the shards of a run.

    The result is byte-identical to a replay without shards.
    """
    from lab.replay.run import merge as merge_shards

    merged = merge_shards(out, shards, announce)
    return Result(
        merged,
        lambda merged: emit_next(
            f"{out}: {merged.copied} conversations copied, {merged.there} already present.", f"lab score {out}"
        ),
        lambda merged: {
            "run": str(out),
            "status": merged.run.manifest.status,
            "conversations": {"copied": merged.copied, "there": merged.there},
            "notes": list(merged.notes),
        },
    )


def rm(
    run: options.Run,
    write: options.Write = False,
) -> Result:
    """Remove a run.

    Refuses a folder that is not a run, and an approved run. Files that the lab did not write are kept and listed.
    """
    from lab.base.files import only_writer
    from lab.nightly.baselines import require_no_object
    from lab.report.drawings import FIGURES
    from lab.runs.directory import files_of_run, open_run, remove_run

    opened = open_run(run)
    require_no_object(opened.path)
    figures = [*(figure.name for figure in FIGURES), *OF_COMMANDS]
    files = files_of_run(opened, figures)
    left: list[Path] = []
    if write:
        with only_writer(opened.path):
            left = remove_run(opened, figures)
    kept = [str(path) for path in left]
    return changed("runs rm", run, {"counts": {"files": len(files)}, "left": kept}, _show_removed, write=write)


def _show_removed(change: dict[str, Any]) -> None:
    run, left = change["target"], change["left"]
    if not change["written"]:
        emit(f"would remove {run}: {counted(change['counts']['files'], 'file')}")
        return
    emit(f"removed {run}" + (f", except {counted(len(left), 'file')} that the lab did not write:" if left else ""))
    for path in left[:SHOWN]:
        emit(path)
    if len(left) > SHOWN:
        emit(f"… and {len(left) - SHOWN} more (--json lists all)")


def schema() -> Result:
    """Print the JSON Schema (2020-12) of the manifest of a run."""
    from lab.runs.manifest import manifest_schema

    return Result(manifest_schema(), emit_indented)


# Of ``lab runs``.
runs = (list_, merge, export, import_, rm, schema)
