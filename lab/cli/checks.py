"""``lab doctor``: check that this machine can run the lab."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.base.errors import CheckFailed
from lab.cli.output import Json, emit_json, emit_table


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("doctor")(doctor)


def doctor(
    embedder: Annotated[
        str | None,
        typer.Option(help="Also embed a short and a long text with this embedder. This calls its endpoint, if any."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check that this machine can run the lab.

    Checks packages, model weights, the cache folder and LanceDB's text index.
    """
    from lab.replay.doctor import examine

    checks = examine(embedder)
    if as_json:
        emit_json({"checks": [check._asdict() for check in checks], "ok": all(check.ok for check in checks)})
    else:
        rows = [[check.name, "ok" if check.ok else "FAILED", check.detail] for check in checks]
        emit_table(["check", "state", "detail"], rows, left=3)
    failed = [check.name for check in checks if not check.ok]
    if failed:
        raise CheckFailed(f"failed: {', '.join(failed)}")
