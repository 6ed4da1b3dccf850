"""``lab diff``: compare two runs exactly, column by column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, NotComparable
from lab.base.formatting import counted
from lab.cli import options
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result

if TYPE_CHECKING:
    from lab.compare.changes import Changes


def diff(
    before: options.Run,
    after: Annotated[Path, typer.Argument(metavar="DIR2", help="Another run of the same recordings.")],
) -> Result:
    """Compare two runs exactly, column by column of every receipt.

    Also lists differences of arguments and versions that could be the cause. Conversations that only one run has, or
    that are not the same in both, are named and not compared. Exit codes: 0 no turn differs, 1 a turn differs, 3 not
    all conversations can be compared.
    """
    from lab.compare.changes import changes as compare_runs
    from lab.runs.directory import open_run

    changes = compare_runs(open_run(before), open_run(after))
    # A difference is a result, not an error, so no message.
    code = CheckFailed.exit_code if changes.changed else NotComparable.exit_code if changes.common.others else 0
    return Result(changes, _show, error=typer.Exit(code) if code else None)


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
