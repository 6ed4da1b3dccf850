"""``lab golden lint`` and ``lab doctor``.

Things that are checked, and fail with exit code 1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.output import Json, emit, emit_json, emit_list, emit_table
from lab.errors import CheckFailed


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    golden = typer.Typer(no_args_is_help=True, help="Golden sets: check them.")
    golden.command("lint")(lint)
    app.add_typer(golden, name="golden")
    app.command("doctor")(doctor)


def lint(
    path: Annotated[Path, typer.Argument(help="A golden set: a file, or a folder of them.")],
    recordings: Annotated[
        Path | None, typer.Option(help="The recordings it judges; by default those beside golden/, in datasets/.")
    ] = None,
    format: Annotated[str, typer.Option("--format", help="Format of the recordings.")] = "lab",  # noqa: A002 - the name of the option
    as_json: Json = False,
) -> None:
    """Check a golden set against its recordings: dead keys, contradictions, memories not yet born."""
    from lab.golden.lint import lint as check
    from lab.golden.read import read_golden
    from lab.recordings.readers import read_library
    from lab.shelf import datasets_beside

    golden = read_golden(path)
    found = check(golden, read_library(recordings or datasets_beside(path), format).recordings)
    if as_json:
        emit_json(found.as_json())
    else:
        emit(f"{found.probes} probes, {found.judgements} judgements, {found.silent} probes that need nothing")
        emit_list("warning", found.warnings)
        emit_list("error", found.errors)
    if found.errors:
        raise CheckFailed(f"{path}: {len(found.errors)} errors")


def doctor(as_json: Json = False) -> None:
    """Check that this machine can measure.

    Packages, model weights, the cache folder, LanceDB's text index.
    """
    from lab.replay.doctor import examine

    checks = examine()
    if as_json:
        emit_json({"checks": [check._asdict() for check in checks], "ok": all(check.ok for check in checks)})
    else:
        rows = [[check.name, "ok" if check.ok else "FAILED", check.detail] for check in checks]
        emit_table(["check", "state", "detail"], rows, left=3)
    failed = [check.name for check in checks if not check.ok]
    if failed:
        raise CheckFailed(f"failed: {', '.join(failed)}")
