"""``lab missed``: count the relevant memories that each arm missed, by cause."""

from __future__ import annotations

from typing import Any

import typer

from lab.cli import options
from lab.cli.output import announce, emit, emit_folded, emit_trial
from lab.cli.results import Result


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("missed")(missed)


def missed(
    run: options.Run,
    jobs: options.Jobs = 1,
) -> Result:
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
    arms = {arm: {**count._asdict(), "missed": count.missed} for arm, count in counts.items()}
    found = {"run": str(run), "trial": list(reasons), "arms": arms, "figures": [str(file) for file in files]}

    def show(found: dict[str, Any]) -> None:
        emit_trial(found["trial"])
        arms = found["arms"].values()
        known = [cause for cause in CAUSES if any(cause in count["causes"] for count in arms)]
        shown = {"all": "relevant", "injected": "injected", "in the Working Set": "pinned", "missed": "missed"}
        rows = [[title, *(count[name] for count in arms)] for title, name in shown.items()]
        rows += [[f"  {cause}", *(count["causes"].get(cause, 0) for count in arms)] for cause in known]
        emit(text_tables(["relevant memories", *found["arms"]], rows))
        emit()
        for cause in known:
            emit_folded(f"{cause}: {CAUSES[cause]}.")
        emit_folded(f"Every missed memory: {run / FILE}; chart: {found['figures'][1]}")

    return Result(found, show)
