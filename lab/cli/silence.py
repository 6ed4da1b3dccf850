"""``lab silence``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.cli.replay_options import LABELLED, takes_replay_options

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest
    from lab.sweep.silence import Chosen


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("silence")(silence)


@takes_replay_options(*LABELLED, "memories", "haystack", "haystack_from", "max_items", "config", arms=("hybrid",))
def silence(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for silence.parquet and the chart.")],
    embedder: Annotated[
        list[str] | None,
        typer.Option("--embedder", help="An embedder. Repeat for more. [default: all-MiniLM-L6-v2]"),
    ] = None,
    cost: Annotated[
        float, typer.Option(min=0.0, help="How many false recalls a lost hit costs, both as shares of their probes.")
    ] = 1.0,
    loss: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Largest loss of hit rate of the second threshold.")
    ] = 0.02,
    as_json: Json = False,
) -> None:
    """Show what a silence threshold saves and what it costs.

    Each signal has its curve over all thresholds and its AUROC. Two thresholds are chosen on one half of the
    conversations, by --cost and by --loss, and evaluated on the other half.
    """
    from dataclasses import replace

    from lab.report.figures import save, silence_figure
    from lab.sweep.silence import FILE, Terms, chosen, collect, curves, write_points

    options.require_no_run(out)
    points, rows = [], []
    terms = Terms(cost, loss)
    for name in embedder or [request.embedder]:
        answers = collect(replace(request, embedder=name), announce)
        points += curves(answers, name)
        rows += chosen(answers, name, terms, request.seed)
    write_points(points, out / FILE)
    files = save(silence_figure(points), out / "silence")
    if as_json:
        emit_json(
            {
                "cost": cost,
                "loss": loss,
                "chosen": [row._asdict() for row in rows],
                "points": [point._asdict() for point in points],
                "figures": [str(file) for file in files],
            }
        )
        return
    _show(rows, terms.cost, terms.loss)
    emit(f"Curves: {out / FILE}. Charts: {', '.join(str(file) for file in files)}")


def _show(rows: list[Chosen], cost: float, loss: float) -> None:
    for embedder in dict.fromkeys(row.embedder for row in rows):
        emit(f"embedder {embedder}")
        emit_table(
            ["of", "signal", "AUROC", "rule", "below", "FalseRecall", "hit"],
            [
                [
                    f"{row.language}, {row.arm} ({row.with_gold} + {row.without_gold})",
                    row.signal,
                    row.auroc,
                    row.rule,
                    f"{row.threshold:.3f}",
                    f"{row.false_recall[0]:.3f}→{row.false_recall[1]:.3f}",
                    f"{row.hit[0]:.3f}→{row.hit[1]:.3f}",
                ]
                for row in rows
                if row.embedder == embedder
            ],
            left=2,
        )
        emit()
    emit_folded(
        "In brackets: probes with gold, and probes that need nothing. AUROC: how often the signal is higher at a probe "
        "with gold than at one that needs nothing (.5 is chance). "
        f"Thresholds are chosen on one half of the conversations: cost, the lowest sum of FalseRecall and {cost:g} "
        f"times the lost hit rate; loss, the lowest FalseRecall that loses at most {loss:g}. FalseRecall and hit: "
        "without and with the threshold, on the other half."
    )
