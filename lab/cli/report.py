"""``lab report``: write the report of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.formatting import sentence
from lab.base.progress import beating
from lab.cli import completion, options
from lab.cli.output import announce, emit, emit_folded
from lab.cli.results import Result
from lab.cli.verdict_tables import emit_action, policy_place

if TYPE_CHECKING:
    from lab.report.build import Built


def report(
    run: options.Run,
    baseline: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms,
            help="The arm to compare with. [default: the verdict's; without one, tier_first_v1 or the first]",
        ),
    ] = None,
    candidate: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.arms,
            help="The arm to compare. [default: the verdict's; without one, tier_quota_v1 or the second]",
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
    errata: options.Errata = None,
    allow_failed: options.AllowFailed = False,
) -> Result:
    """Write report.html and report.md into a run."""
    from lab.gate.outputs import read_verdict
    from lab.report.build import write_report
    from lab.runs.directory import VERDICT, open_run

    def show(built: Built) -> None:
        found = built.opening
        judged = f"{found.word} (policy {found.policy}): {found.why}" if found.policy else found.means
        emit_folded(sentence(judged))
        verdict = run / VERDICT
        emit_action(found.action, {"DIR": run, **(policy_place(read_verdict(verdict)) if verdict.is_file() else {})})
        emit(f"Open {built.files[0]}")

    opened = open_run(run, allow_failed=allow_failed)
    with beating(announce, "writing the report"):
        built = write_report(
            opened, baseline, candidate, with_text=with_text, turns=turns, slides=slides, errata=errata
        )
    if built.stale:
        announce(built.stale)
    return Result(built, show, lambda built: {"files": [str(file) for file in built.files]})
