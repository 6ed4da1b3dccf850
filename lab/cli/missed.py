"""``lab missed``: count the relevant memories that each arm missed, by cause."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_trial


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("missed")(missed)


def missed(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Count the relevant memories that each arm missed, by cause.

    Every recall at a probe is repeated and explained, as lab explain explains one. The causes of an arm sum to all that
    it missed. Writes missed.parquet, with one row per missed memory, and a waterfall chart into DIR.
    """
    from lab.replay.explain import CAUSES, FILE, write_missed
    from lab.replay.explain import missed as explain_all
    from lab.report.entry import source_of
    from lab.report.figures_arms import missed_chart
    from lab.report.slides import draw, save
    from lab.report.tables import text_tables
    from lab.runs.directory import open_run
    from lab.runs.notes import trial

    opened = open_run(run)
    rows, counts = explain_all(opened, jobs=jobs, announce=announce)
    write_missed(rows, counts, run / FILE)
    files = save(draw(missed_chart(counts).of(source_of(opened))), run / "figures" / "missed")
    reasons = trial(opened.manifest)
    if as_json:
        arms = {arm: {**count._asdict(), "missed": count.missed} for arm, count in counts.items()}
        emit_json({"run": str(run), "trial": list(reasons), "arms": arms, "figures": [str(file) for file in files]})
        return
    emit_trial(reasons)
    known = [cause for cause in CAUSES if any(cause in count.causes for count in counts.values())]
    emit(
        text_tables(
            ["relevant memories", *counts],
            [
                ["all", *(count.relevant for count in counts.values())],
                ["injected", *(count.injected for count in counts.values())],
                ["in the Working Set", *(count.pinned for count in counts.values())],
                ["missed", *(count.missed for count in counts.values())],
                *([f"  {cause}", *(count.causes.get(cause, 0) for count in counts.values())] for cause in known),
            ],
        )
    )
    emit()
    for cause in known:
        emit_folded(f"{cause}: {CAUSES[cause]}.")
    emit_folded(f"Every missed memory: {run / FILE}; chart: {files[1]}")
