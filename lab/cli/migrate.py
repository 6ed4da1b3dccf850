"""``lab migrate``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.output import Json, emit, emit_folded, emit_json
from lab.errors import CannotMeasure


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("migrate")(migrate)


def migrate(
    source: Annotated[
        Path, typer.Argument(metavar="SOURCE", help="A run, a folder of baselines, a plan or a policy of version 0.1.")
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where it goes; what is there is not replaced.")],
    as_json: Json = False,
) -> None:
    """Bring forward what version 0.1 wrote, or say why not.

    What is written has the form of this version, and the source is left as it is. A run that was migrated says so, and
    that its digests were taken then.
    """
    from lab.nightly.migrate import migrate as bring

    done = bring(source, out)
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
        emit(f"{source}: {done.kind} brought forward: {', '.join(done.names) or 'nothing'}")
        for note in done.notes:
            emit_folded(f"note: {note}")
        for name, why in done.refused:
            emit_folded(f"not brought forward: {name}: {why}")
    if done.refused:
        raise CannotMeasure(f"{source}: {len(done.refused)} of its baselines could not be brought forward")
