"""``lab study silence``: show what a silence threshold saves and what it costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.base.formatting import counted
from lab.cli import options
from lab.cli.options import LABELLED, takes_replay_options
from lab.cli.output import Json, announce
from lab.cli.study import finish

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("silence")(silence)


@takes_replay_options(*LABELLED, "memories", "haystack", "haystack_from", "max_items", "config", arms=("hybrid",))
def silence(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for silence.parquet and the page.")],
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
    slides: options.Slides = False,
    as_json: Json = False,
) -> None:
    """Show what a silence threshold saves and what it costs.

    Each signal has its curve over all thresholds and its AUROC. Two thresholds are chosen on one half of the
    conversations, by --cost and by --loss, and evaluated on the other half.
    """
    from dataclasses import replace

    from lab.base.shape import to_json
    from lab.replay.plan import make_plan
    from lab.report.figures_studies import silence_chart
    from lab.report.study import Part, Study
    from lab.retrieval.silence import ABOUT
    from lab.runs.manifest import NO_HAYSTACK, resolved_of
    from lab.runs.notes import trial_of_replay
    from lab.studies.silence import FILE, Chosen, Terms, chosen, curves, write_points
    from lab.studies.silence_replay import collect

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
    headers = ("signal", "AUROC", "rule", "silent below", "FalseRecall", "hit")
    groups: dict[tuple[str, str, str, int, int], list[Chosen]] = {}
    for row in rows:
        key = row.embedder, row.language, row.arm, row.with_gold, row.without_gold
        groups.setdefault(key, []).append(row)
    parts = [
        Part(
            f"{arm}, language {language}, {name}: {counted(with_gold, 'probe')} with gold, {without} that need nothing",
            headers,
            [
                [
                    row.signal,
                    row.auroc,
                    row.rule,
                    f"{row.threshold:.3f}",
                    f"{row.false_recall[0]:.3f} → {row.false_recall[1]:.3f}",
                    f"{row.hit[0]:.3f} → {row.hit[1]:.3f}",
                ]
                for row in of_part
            ],
        )
        for (name, language, arm, with_gold, without), of_part in groups.items()
    ]
    about_thresholds = (
        "AUROC: how often the signal is higher at a probe with gold than at one that needs nothing (.5 is chance). "
        f"Thresholds are chosen on one half of the conversations: cost, the lowest sum of FalseRecall and {cost:g} "
        f"times the lost hit rate; loss, the lowest FalseRecall that loses at most {loss:g}. FalseRecall and hit: "
        "without and with the threshold, on the other half."
    )
    notes = (f"Signals: {'; '.join(f'{name}, {what}' for name, what in ABOUT.items())}.", about_thresholds)
    data = {
        "about": about,
        "trial": list(reasons),
        "cost": cost,
        "loss": loss,
        "chosen": [row._asdict() for row in rows],
        "points": [point._asdict() for point in points],
    }
    chart = silence_chart(points, rows).of(f"recall lab: {about}")
    study = Study("silence", {"silence": chart}, parts, data, about, notes, list(reasons))
    finish(study, out, slides=slides, as_json=as_json)
