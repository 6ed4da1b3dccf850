"""``lab ablate``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table
from lab.errors import CannotMeasure
from lab.words import bracketed, signed

if TYPE_CHECKING:
    from lab.compare.ablation import Step


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("ablate")(ablate)


def ablate(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: options.RunFolder,
    golden: options.Golden = None,
    memories: options.Memories = None,
    labels: options.LabelMode = None,
    must_share: options.MustShare = None,
    nice_share: options.NiceShare = None,
    hard_rules: options.HardRules = 0,
    categories: options.Categories = "recorded",
    seed: options.Seed = 0,
    scope: options.Scope = "none",
    recall_turns: options.RecallTurns = None,
    memories_from: options.MemoriesFrom = None,
    max_items: options.MaxItems = None,
    limit: options.Limit = None,
    conversation: options.Conversations = None,
    config: options.Config = None,
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Tell what each phase adds, from tier_first_v1 to the whole.

    All rungs run over one retrieval, so that the ladder costs little more than one arm.
    """
    from lab.compare.ablation import ablation, measures_shown
    from lab.measures.score import read_gold, score_and_write, summarise
    from lab.replay.plan import Asked
    from lab.replay.run import run_replay
    from lab.report.figures import save
    from lab.report.figures_ablation import ablation_figure
    from lab.systems.openclaw.ladder import LADDER

    asked = Asked(
        str(path),
        format,
        tuple(rung.arm for rung in LADDER),
        golden=str(golden) if golden else None,
        memories=memories,
        labels=labels,
        must_share=must_share,
        nice_share=nice_share,
        hard_rules=hard_rules,
        categories=categories,
        seed=seed,
        scope=scope,
        recall_turns=recall_turns,
        memories_from=str(memories_from) if memories_from else None,
        max_items=max_items,
        limit=limit,
        conversation=tuple(conversation or ()),
        config=str(config) if config else None,
    )
    outcome = run_replay(asked, out, jobs=jobs, announce=announce)
    if outcome.failures:
        raise CannotMeasure(f"{len(outcome.failures)} conversations failed; reasons are in {out / 'failures.jsonl'}")
    run = outcome.run
    scores = score_and_write(run)
    summary = summarise(scores, read_gold(run), run.arms)
    steps = ablation(scores, summary["arms"], run.cutoff)
    files = save(ablation_figure(steps, run.cutoff), out / "figures" / "ablation")
    if as_json:
        emit_json(
            {"run": str(out), "steps": [step.as_json() for step in steps], "figures": [str(file) for file in files]}
        )
        return
    shown = measures_shown(run.cutoff)
    resolved = run.manifest["resolved"]
    n = summary["arms"][steps[0].arm]["n"]
    emit_folded(
        f"{n} probes with gold in {len(run.conversations)} conversations of {path}; labels "
        f"{resolved['labels']['mode']}, scope {resolved['scope']}"
    )
    if not n:
        emit_folded("Without gold nothing can be hit: give a golden set with --golden.")
    emit_table(["arm", *shown.values()], [[step.arm, *step.means.values()] for step in steps])
    emit_folded(f"Headings: {', '.join(f'{short} {name}' for name, short in shown.items())}.")
    emit()
    for step in steps[1:]:
        emit(f"{step.arm:<15} {step.adds}")
    emit()
    alone = len(run.conversations) == 1
    about = "one conversation: no interval" if alone else "its 95 % interval"
    emit(f"what each rung changes, against the one before [{about}]")
    first = list(shown)[:3]
    emit_table(
        ["arm", *(shown[name] for name in first)],
        [[step.arm, *(_change(step, name) for name in first)] for step in steps[1:]],
    )
    emit_folded(f"Chart: {files[1]}. One turn of any rung: lab explain {out} TURN --arm ARM")


def _change(step: Step, name: str) -> str:
    found = step.changes.get(name)
    if found is None:
        return "–"
    return signed(found.estimate.mean) + bracketed(found.estimate.low, found.estimate.high)
