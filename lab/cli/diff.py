"""``lab diff``: compare two runs exactly, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, NotComparable
from lab.base.formatting import counted
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table

if TYPE_CHECKING:
    from lab.compare.changes import Changes


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("diff")(diff)


def diff(
    before: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    after: Annotated[Path, typer.Argument(metavar="DIR2", help="Another run of the same recordings.")],
    as_json: Json = False,
) -> None:
    """Compare two runs exactly, column by column of every receipt.

    Also lists differences of arguments and versions that could be the cause. Conversations that only one run has, or
    that are not the same in both, are named and not compared. Exit codes: 0 no turn differs, 1 a turn differs, 3 not
    all conversations can be compared.
    """
    from lab.compare.changes import changes as compare_runs
    from lab.runs.directory import open_run

    changes = compare_runs(open_run(before), open_run(after))
    if as_json:
        emit_json(changes.as_json())
    else:
        _show(changes)
    if changes.changed:
        # A difference is a result, not an error, so no message.
        raise typer.Exit(CheckFailed.exit_code)
    if changes.common.others:
        raise typer.Exit(NotComparable.exit_code)


def _show(changes: Changes) -> None:
    emit_table(
        ["arm", "turns", "changed", "in"],
        [[arm.arm, arm.turns, len(arm.changed), ", ".join(arm.columns)] for arm in changes.arms],
        left=4,
    )
    for arms, run in ((changes.only_before, changes.before), (changes.only_after, changes.after)):
        if arms:
            emit_folded(f"only in {run}: {', '.join(arms)}")
    for turn in changes.first():
        emit(f"{turn['arm']}, {turn['turn']}")
        for command in turn["explain"]:
            emit(f"  {command}")
    emit_folded(
        f"{changes.changed:,} of {counted(changes.turns, 'turn')} differ between {changes.before} and {changes.after}"
    )
    if changes.common.others:
        emit_folded(f"not compared: {changes.common}")
    if changes.changed or changes.moved:
        emit_folded("possible causes: " + ("; ".join(changes.moved) or "none in the manifests"))
