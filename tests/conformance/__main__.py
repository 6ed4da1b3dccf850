"""``python -m tests.conformance FOLDER``: check the engine against behaviour recorded from the public plugin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.cli.main import main
from lab.cli.output import Json, emit, emit_folded, emit_json, emit_table

if TYPE_CHECKING:
    from tests.conformance.real_lancedb import Agreement
    from tests.conformance.record_files import Outcome


def conformance(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of vector files, or one of them.")],
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check the engine against recorded plugin behaviour.

    Exit code 1 if a record differs; the first difference of each file is shown. Records that cannot be compared are
    skipped, with the reason. The files that the turns were recorded with (setup/) must be in the folder or beside it.
    """
    from tests.conformance.run import conformance as check

    result = check(path)
    if junit is not None:
        from lab.base.files import write_atomically
        from tests.conformance.junit import junit as junit_of

        write_atomically(junit, junit_of(result))
    if as_json:
        emit_json(result.as_json())
    else:
        rows = [[file.name, file.passed, file.failed, file.skipped] for file in result.files]
        emit_table(["file", "passed", "failed", "skipped"], [*rows, ["", result.passed, result.failed, result.skipped]])
        for file in result.files:
            for reason, count in file.reasons.items():
                emit(f"{file.name}: {count} skipped: {reason}")
        if result.lancedb is not None:
            emit_folded(_lancedb_line(result.lancedb))
        for file in result.files:
            if file.first_failure:
                _show(file.name, file.first_failure)
    if result.failed:
        raise CheckFailed(f"{path}: {result.failed} of {result.passed + result.failed} records differ")
    if not result.passed:
        raise UnusableInput(f"{path}: no record was compared; give a folder of vector files, or one such file")


def _show(name: str, failure: Outcome) -> None:
    line = f", line {failure.line}" if failure.line else ""
    emit()
    emit(f"{name}: {failure.id or 'the file'}{line}")
    for text in failure.difference.lines() if failure.difference else [f"{failure.why}"]:
        emit(f"  {text}")


def _lancedb_line(agreement: Agreement | str) -> str:
    if isinstance(agreement, str):
        return f"LanceDB itself could not be queried: {agreement}"
    return (
        f"LanceDB {agreement.version} itself, without an index: of {agreement.searches} recorded searches, text "
        f"{agreement.fts_orders_agree} in the same order ({agreement.fts_sets_agree} with the same ids), vectors "
        f"{agreement.vector_orders_agree} of {agreement.vector_searches}"
    )


app = typer.Typer(rich_markup_mode=None, add_completion=False)
app.command()(conformance)

if __name__ == "__main__":
    main(app)
