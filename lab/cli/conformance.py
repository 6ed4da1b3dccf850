"""``lab conformance``: the engine held against answers that were recorded from the public plugin, or from another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli.output import Json, emit, emit_json, emit_table
from lab.errors import CheckFailed, UnusableInput

if TYPE_CHECKING:
    from lab.conformance.real_lancedb import Agreement
    from lab.conformance.records import Outcome


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("conformance")(conformance)


def conformance(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of vector files, or one of them.")],
    as_json: Json = False,
) -> None:
    """Hold the engine against recorded answers of the plugin.

    Exit code 1 if a record differs; the first difference of a file is shown. What is not compared is skipped, with a
    reason. Files that turns were recorded over (setup/) lie in the folder or beside it.
    """
    from lab.conformance.run import conformance as check

    found = check(path)
    if as_json:
        emit_json(found.as_json())
    else:
        rows = [[one.name, one.passed, one.failed, one.skipped] for one in found.files]
        emit_table(["file", "passed", "failed", "skipped"], [*rows, ["", found.passed, found.failed, found.skipped]])
        for one in found.files:
            for why, count in one.reasons.items():
                emit(f"{one.name}: {count} skipped: {why}")
        if found.lancedb is not None:
            emit(_of_lancedb(found.lancedb))
        for one in found.files:
            if one.first_failure:
                _show(one.name, one.first_failure)
    if found.failed:
        raise CheckFailed(f"{path}: {found.failed} of {found.passed + found.failed} records differ")
    if not found.passed:
        raise UnusableInput(f"{path}: nothing was compared; name a folder of vector files, or one of them")


def _show(name: str, failure: Outcome) -> None:
    line = f", line {failure.line}" if failure.line else ""
    emit()
    emit(f"{name}: {failure.id or 'the file'}{line}")
    for text in failure.difference.lines() if failure.difference else [f"{failure.why}"]:
        emit(f"  {text}")


def _of_lancedb(found: Agreement | str) -> str:
    if isinstance(found, str):
        return f"LanceDB itself could not be asked: {found}"
    return (
        f"LanceDB {found.version} itself, without an index: of {found.searches} recorded searches, text "
        f"{found.fts_orders_agree} in the same order ({found.fts_sets_agree} with the same ids), vectors "
        f"{found.vector_orders_agree} of {found.vector_searches}"
    )
