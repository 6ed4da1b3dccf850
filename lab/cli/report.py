"""``lab report``: write the report of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.base.formatting import sentence
from lab.cli import completion, options
from lab.cli.output import Json, emit, emit_folded, emit_json
from lab.cli.verdict_tables import emit_action


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("report")(report)


def report(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    baseline: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms,
            help="The arm to compare with. [default: tier_first_v1 if the run has it, else the first]",
        ),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms,
            help="The arm to compare. [default: tier_quota_v1 if the run has it, else the second]",
        ),
    ] = None,
    turns: Annotated[int, typer.Option(min=0, help="Number of turns to show of each kind of change.")] = 12,
    with_text: Annotated[
        bool | None,
        typer.Option(
            "--with-text/--without-text",
            help="Show the texts of these turns and of their memories. [default: only of sets that the lab ships]",
        ),
    ] = None,
    slides: options.Slides = False,
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Write report.html and report.md into a run."""
    from lab.report.build import write_report
    from lab.runs.directory import open_run

    built = write_report(
        open_run(run, allow_failed=allow_failed), baseline, candidate, with_text=with_text, turns=turns, slides=slides
    )
    if as_json:
        emit_json({"files": [str(file) for file in built.files]})
    else:
        found = built.opening
        judged = f"{found.word} (policy {found.policy}): {found.why}" if found.policy else found.means
        emit_folded(sentence(judged))
        emit_action(found.action, {"DIR": run})
        emit(f"Open {built.files[0]}")
