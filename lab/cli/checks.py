"""``lab doctor``: check that this machine can run the lab."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.base.errors import CheckFailed
from lab.cli.output import emit_table
from lab.cli.results import Result


def doctor(
    embedder: Annotated[
        str | None,
        typer.Option(help="Also embed a short and a long text with this embedder. This calls its endpoint, if any."),
    ] = None,
) -> Result:
    """Check that this machine can run the lab.

    Checks packages, model weights, the cache folder and LanceDB's text index.
    """
    from lab.replay.doctor import examine

    checks = examine(embedder)
    rows = [[check.name, "ok" if check.ok else "FAILED", check.detail] for check in checks]
    failed = [check.name for check in checks if not check.ok]
    return Result(
        {"checks": [check._asdict() for check in checks], "ok": not failed},
        lambda _: emit_table(["check", "state", "detail"], rows, left=3),
        error=CheckFailed(f"failed: {', '.join(failed)}") if failed else None,
    )
