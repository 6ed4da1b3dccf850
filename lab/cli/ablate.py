"""``lab study ablate``: run the ablation from tier_first_v1 to the full engine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from lab.base.errors import CannotMeasure
from lab.base.formatting import bracketed, counted, signed
from lab.cli import options
from lab.cli.options import LABELLED, takes_replay_options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_notes, emit_table, emit_trial

if TYPE_CHECKING:
    from lab.compare.arms import StepResult
    from lab.runs.request import ReplayRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("ablate")(ablate)


@takes_replay_options(
    *LABELLED, "memories", "memories_from", "haystack", "haystack_from", "max_items", "config", "embedder", fixed=True
)
def ablate(
    request: ReplayRequest,
    *,
    out: options.RunFolder,
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Run the ablation from tier_first_v1 to the full engine.

    Shows what each step adds. All steps share one retrieval, so the ablation costs little more than one arm.
    """
    from lab.compare.arms import ablation, measures_shown
    from lab.measures.score import score_and_write, summarise
    from lab.replay.run import run_replay
    from lab.report.figures_forest import ablation_chart
    from lab.report.slides import draw, save
    from lab.runs.notes import config_notes, trial
    from lab.runs.scores import read_gold
    from lab.systems.openclaw.presets import ABLATION

    request = replace(request, arms=tuple(step.arm for step in ABLATION))
    outcome = run_replay(request, out, jobs=jobs, announce=announce)
    if outcome.failures:
        raise CannotMeasure(f"{counted(len(outcome.failures), 'conversation')} failed; see {out / 'failures.jsonl'}")
    run = outcome.run
    scores = score_and_write(run)
    summary = summarise(scores, read_gold(run), run.arms)
    steps = ablation(scores, summary["arms"], run.cutoff)
    files = save(draw(ablation_chart(steps, run.cutoff)), out / "figures" / "ablation")
    reasons = trial(run.manifest)
    resolved = run.manifest.resolved
    notes = config_notes(resolved)
    if as_json:
        emit_json(
            {
                "run": str(out),
                "trial": list(reasons),
                "steps": [step.as_json() for step in steps],
                "figures": [str(file) for file in files],
            }
            | ({"embedder": list(notes)} if notes else {})
        )
        return
    shown = measures_shown(run.cutoff)
    emit_trial(reasons)
    emit_notes((*run.manifest.origin_notes, *notes))
    n = summary["arms"][steps[0].arm]["n"]
    emit_folded(
        f"{counted(n, 'probe')} with gold in {counted(len(run.conversations), 'conversation')} of {request.path}; "
        f"labels {resolved.labels.mode}, scope {resolved.scope}"
    )
    if not n:
        emit_folded("No probe has gold, so hit rates are undefined. Give a golden set with --golden.")
    emit_table(["arm", *shown.values()], [[step.arm, *step.means.values()] for step in steps])
    emit_folded(f"Columns: {', '.join(f'{short} {name}' for name, short in shown.items())}.")
    emit()
    for step in steps[1:]:
        emit(f"{step.arm:<15} {step.adds}")
    emit()
    about = "no interval: one conversation" if len(run.conversations) == 1 else "95 % interval"
    emit(f"change from the step before [{about}]")
    first = list(shown)[:3]
    emit_table(
        ["arm", *(shown[name] for name in first)],
        [[step.arm, *(_change(step, name) for name in first)] for step in steps[1:]],
    )
    emit_folded(f"Chart: {files[1]}. To explain a turn of a step: lab explain {out} TURN --arm ARM")


def _change(step: StepResult, name: str) -> str:
    change = step.changes.get(name)
    if change is None:
        return "–"
    return signed(change.estimate.mean) + bracketed(change.estimate.low, change.estimate.high)
