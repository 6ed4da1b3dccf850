"""``lab diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table
from lab.errors import CheckFailed

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
    """Compare two runs exactly. Every column of every receipt, and what could explain a difference.

    Exit codes: 0 where nothing differs, 1 where anything does, 3 where the runs cannot be compared.
    """
    from lab.compare.changes import changes
    from lab.runs.directory import open_run

    found = changes(open_run(before), open_run(after))
    if as_json:
        emit_json(found.as_json())
    else:
        _show(found)
    if found.changed:
        # No failure: the answer to the question.
        raise typer.Exit(CheckFailed.exit_code)


def _show(found: Changes) -> None:
    emit_table(
        ["arm", "turns", "changed", "in"],
        [[one.arm, one.turns, len(one.changed), ", ".join(one.columns)] for one in found.arms],
        left=4,
    )
    for arms, run in ((found.only_before, found.before), (found.only_after, found.after)):
        if arms:
            emit_folded(f"only in {run}: {', '.join(arms)}")
    for one in found.first():
        emit(f"{one['arm']}, {one['turn']}")
        for command in one["explain"]:
            emit(f"  {command}")
    emit_folded(f"{found.changed} of {found.turns} turns differ between {found.before} and {found.after}")
    if found.changed or found.moved:
        emit_folded("moved: " + ("; ".join(found.moved) or "nothing that a manifest knows"))
