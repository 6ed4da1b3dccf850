"""``lab replay`` and ``lab score``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli.output import Json, announce, emit, emit_json, emit_table
from lab.errors import CannotMeasure, UnusableInput


def add_to(app: typer.Typer) -> None:
    """Register the verbs."""
    app.command("replay")(replay)
    app.command("score")(score)


def replay(
    path: Annotated[Path, typer.Argument(help="A recording, or a folder of them.")],
    format: Annotated[str, typer.Option("--format", help="lab, locomo, openclaw or realmem.")],  # noqa: A002 - the name of the option
    arm: Annotated[
        list[str],
        typer.Option("--arm", help="An arm, or NAME=FILE for one with its own configuration. Repeat for more."),
    ],
    out: Annotated[Path, typer.Option("--out", help="The run directory: new, or one made with the same arguments.")],
    golden: Annotated[
        Path | None, typer.Option(help="Golden set of the project's own form; by default the one beside datasets/.")
    ] = None,
    store: Annotated[str, typer.Option(help="exact (for quality) or lancedb (the live path).")] = "exact",
    profile: Annotated[str, typer.Option(help="seed or upstream.")] = "seed",
    memories: Annotated[str | None, typer.Option(help="What counts as a memory; each format has a default.")] = None,
    memories_from: Annotated[
        Path | None,
        typer.Option(
            help="A LanceDB folder, or an export of it (.jsonl, .json), whose memories take the place of the "
            "recording's own. It is only read. Its vectors are not used: texts are embedded anew."
        ),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(
            help="recorded, heuristic-v1, sampled or distractors; recorded where there are any, else sampled."
        ),
    ] = None,
    must_share: Annotated[
        float | None, typer.Option(help="Share of all memories drawn must_remember. [default: 0.10]")
    ] = None,
    nice_share: Annotated[
        float | None, typer.Option(help="Share drawn nice_to_have; by default .7 of what is not must.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of drawn labels and of the random arm.")] = 0,
    scope: Annotated[
        str, typer.Option(help="none: one pool. recorded: a turn reaches memories of its own scope alone.")
    ] = "none",
    recall_turns: Annotated[str | None, typer.Option(help="user, all or none; each format has a default.")] = None,
    max_items: Annotated[
        int | None,
        typer.Option(help="Items injected at most, where the configuration names none. [default: 6; upstream 4]"),
    ] = None,
    depth: Annotated[int, typer.Option(help="Length of an untiered arm's ranking.")] = 50,
    limit: Annotated[int | None, typer.Option(help="Replay the first N conversations alone.")] = None,
    conversation: Annotated[
        list[str] | None, typer.Option(help="Replay this conversation alone. Repeat for more.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to use.")] = 1,
    config: Annotated[Path | None, typer.Option(help="Engine configuration (JSON) of arms that bring none.")] = None,
    embedder: Annotated[
        str, typer.Option(help="The default model, or a folder with a sentence-transformers model.")
    ] = "all-MiniLM-L6-v2",
    as_json: Json = False,
) -> None:
    """Replay recordings turn by turn through one or more arms."""
    from lab.replay.plan import Asked
    from lab.replay.run import run_replay

    asked = Asked(
        str(path),
        format,
        tuple(arm),
        golden=str(golden) if golden else None,
        store=store,
        profile=profile,
        memories=memories,
        labels=labels,
        must_share=must_share,
        nice_share=nice_share,
        seed=seed,
        scope=scope,
        recall_turns=recall_turns,
        max_items=max_items,
        depth=depth,
        limit=limit,
        conversation=tuple(conversation or ()),
        config=str(config) if config else None,
        embedder=embedder,
        memories_from=str(memories_from) if memories_from else None,
    )
    outcome = run_replay(asked, out, jobs=jobs, announce=announce)
    if as_json:
        emit_json(
            {
                "run": str(out),
                "status": outcome.run.manifest["status"],
                "conversations": {
                    "done": len(outcome.done),
                    "skipped": len(outcome.skipped),
                    "failed": len(outcome.failures),
                },
                "embedded": outcome.embedded,
                "labels": outcome.run.manifest["resolved"]["labels"],
            }
        )
    else:
        emit(
            f"{out}: {len(outcome.done)} done, {len(outcome.skipped)} skipped, {len(outcome.failures)} failed. "
            f"Next: lab score {out}"
        )
    if outcome.failures:
        raise CannotMeasure(f"{len(outcome.failures)} conversations failed; reasons are in {out / 'failures.jsonl'}")


def score(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="Show these measures. Repeat for more.")
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Show every slice, too.")] = False,
    as_json: Json = False,
) -> None:
    """Score a run: means of every measure, by arm and by slice."""
    from lab.measures.score import canonical, headlines, read_gold, score_run, summarise
    from lab.replay.run_directory import open_run

    opened = open_run(run)
    summary = summarise(score_run(opened), read_gold(opened), opened.arms)
    if as_json:
        emit_json(summary)
        return
    known = {name for arm in summary["arms"].values() for name in arm["measures"]}
    asked = [canonical(name) for name in measure or ()]
    for name in asked:
        if name not in known:
            raise UnusableInput(f"no measure {name!r} in this run; it has: {', '.join(sorted(known))}")
    wanted = asked or [name for name in headlines(opened.cutoff) if name in known]
    _emit_means("arm", summary["arms"], wanted)
    if slices:
        for name, values in summary["slices"].items():
            for value, arms in values.items():
                emit(f"{name} = {value}")
                _emit_means("arm", arms, wanted)


def _emit_means(title: str, arms: dict[str, Any], wanted: list[str]) -> None:
    emit_table(
        [title, "n", *wanted],
        [[name, one["n"], *(one["measures"].get(measure) for measure in wanted)] for name, one in arms.items()],
    )
