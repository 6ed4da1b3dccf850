"""``lab migrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.base.errors import CannotMeasure
from lab.cli.output import Json, emit, emit_folded, emit_json


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("migrate")(migrate)


def migrate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A run, a folder of baselines, a plan or a policy of version 0.1.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to write it. Existing files are not replaced.")],
    as_json: Json = False,
) -> None:
    """Convert files of version 0.1 to this version.

    The source is not changed. A migrated run records that it was migrated and that its checksums were computed then.
    """
    from lab.nightly.migrate import migrate as convert

    done = convert(source, out)
    if as_json:
        emit_json(
            {
                "kind": done.kind,
                "out": str(out),
                "names": list(done.names),
                "notes": list(done.notes),
                "refused": dict(done.refused),
            }
        )
    else:
        emit(f"{source}: {done.kind} migrated: {', '.join(done.names) or 'nothing'}")
        for note in done.notes:
            emit_folded(f"note: {note}")
        for name, reason in done.refused:
            emit_folded(f"not migrated: {name}: {reason}")
    if done.refused:
        raise CannotMeasure(f"{source}: {len(done.refused)} of its baselines could not be migrated")
