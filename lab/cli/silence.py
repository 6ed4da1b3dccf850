"""``lab study silence``: show what a silence threshold saves and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.formatting import counted
from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table, emit_trial
from lab.cli.replay_options import LABELLED, takes_replay_options

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest
    from lab.studies.silence import Chosen


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

    from lab.replay.plan import make_plan
    from lab.report.figures_studies import silence_chart
    from lab.report.slides import draw, save
    from lab.runs.manifest import NO_HAYSTACK, resolved_of
    from lab.runs.records import to_json
    from lab.runs.trial import trial_of_replay
    from lab.studies.silence import FILE, Terms, chosen, collect, curves, write_points

    options.require_no_run(out)
    points, rows = [], []
    about, reasons = "", dict[str, None]()
    terms = Terms(cost, loss)
    for name in embedder or [request.embedder]:
        plan = make_plan(replace(request, embedder=name))
        answers = collect(plan.request, announce, plan)
        resolved = resolved_of(plan.resolved())
        about = (
            f"{Path(request.path).name}: {counted(len(plan.recordings), 'conversation')}, labels {resolved.labels}, "
            f"{resolved.haystack or NO_HAYSTACK}"
        )
        reasons |= dict.fromkeys(trial_of_replay(resolved, to_json(plan.request)))
        points += curves(answers, name)
        rows += chosen(answers, name, terms, request.seed)
    write_points(points, out / FILE)
    files = save(draw(silence_chart(points, rows).of(f"recall lab: {about}")), out / "silence")
    if as_json:
        emit_json(
            {
                "about": about,
                "trial": list(reasons),
                "cost": cost,
                "loss": loss,
                "chosen": [row._asdict() for row in rows],
                "points": [point._asdict() for point in points],
                "figures": [str(file) for file in files],
            }
        )
        return
    emit_trial(list(reasons))
    emit_folded(about)
    _show(rows, terms.cost, terms.loss)
    emit(f"Curves: {out / FILE}. Charts: {', '.join(str(file) for file in files)}")


def _show(rows: list[Chosen], cost: float, loss: float) -> None:
    from lab.retrieval.silence import ABOUT

    parts = dict.fromkeys((row.embedder, row.language, row.arm, row.with_gold, row.without_gold) for row in rows)
    for embedder, language, arm, with_gold, without_gold in parts:
        emit()
        emit_folded(
            f"{arm}, language {language}, {embedder}: {counted(with_gold, 'probe')} with gold, "
            f"{without_gold} that need nothing"
        )
        emit_table(
            ["signal", "AUROC", "rule", "silent below", "FalseRecall", "hit"],
            [
                [
                    row.signal,
                    row.auroc,
                    row.rule,
                    f"{row.threshold:.3f}",
                    f"{row.false_recall[0]:.3f} → {row.false_recall[1]:.3f}",
                    f"{row.hit[0]:.3f} → {row.hit[1]:.3f}",
                ]
                for row in rows
                if (row.embedder, row.language, row.arm) == (embedder, language, arm)
            ],
        )
    emit()
    emit_folded(f"Signals: {'; '.join(f'{name}, {about}' for name, about in ABOUT.items())}.")
    emit_folded(
        "AUROC: how often the signal is higher at a probe with gold than at one that needs nothing (.5 is chance). "
        f"Thresholds are chosen on one half of the conversations: cost, the lowest sum of FalseRecall and {cost:g} "
        f"times the lost hit rate; loss, the lowest FalseRecall that loses at most {loss:g}. FalseRecall and hit: "
        "without and with the threshold, on the other half."
    )
