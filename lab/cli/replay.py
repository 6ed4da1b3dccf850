"""``lab replay`` and ``lab score``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_notes, emit_table, emit_trial
from lab.cli.replay_options import OPTIONS, asks
from lab.errors import CannotMeasure, UnusableInput
from lab.formatting import counted

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest
    from lab.runs.directory import RunDirectory


# The question of the lab, and the plainest search beside it.
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("replay")(replay)
    app.command("merge")(merge)
    app.command("score")(score)


@asks(*OPTIONS, arms=ARMS)
def replay(
    asked: ReplayRequest,
    *,
    out: options.RunFolder,
    jobs: options.Jobs = 1,
    dask: options.Dask = None,
    shard: options.ShardOf = None,
    and_score: Annotated[bool, typer.Option("--score", help="Score the run at once, as lab score does.")] = False,
    as_json: Json = False,
) -> None:
    """Replay recordings turn by turn through one or more arms."""
    from lab.replay.config_notes import embedder_notes
    from lab.replay.run import run_replay
    from lab.replay.shards import parse_shard
    from lab.runs.directory import failed_summary
    from lab.runs.records import to_json
    from lab.runs.trial import trial

    part = parse_shard(shard) if shard else None
    if part and and_score:
        raise UnusableInput("--score needs a whole run, and this is a shard; lab merge OUT SHARD…, then lab score OUT")
    outcome = run_replay(asked, out, jobs=jobs, dask=dask, shard=part, announce=announce)
    notes = embedder_notes(outcome.run.manifest.resolved)
    summary = None
    if and_score and not outcome.failures and not outcome.run.manifest.failed:
        from lab.measures.score import score_and_write, summarise
        from lab.runs.gold import read_gold

        summary = summarise(score_and_write(outcome.run), read_gold(outcome.run), outcome.run.arms)
    reasons = trial(outcome.run.manifest)
    if as_json:
        emit_json(
            {
                "run": str(out),
                "trial": list(reasons),
                "status": outcome.run.manifest.status,
                "conversations": {
                    "done": len(outcome.done),
                    "skipped": len(outcome.skipped),
                    "failed": len(outcome.failures),
                },
                "failed_recalls": dict(outcome.run.manifest.failed),
                "embedded": outcome.embedded,
                "labels": to_json(outcome.run.manifest.resolved.labels),
            }
            | ({"shard": str(outcome.run.shard)} if part else {})
            | ({"scores": summary} if summary else {})
            | ({"embedder": list(notes)} if notes else {})
        )
    else:
        emit_trial(reasons)
        emit_notes(notes)
        emit(
            f"{out}: {len(outcome.done)} done, {len(outcome.skipped)} skipped, {len(outcome.failures)} failed."
            + ("" if summary else f" Next: {f'lab merge OUT {out} …' if part else f'lab score {out}'}")
        )
        if summary:
            _show_means(summary, outcome.run, _wanted(summary, outcome.run, []), asked=False)
    if outcome.failures:
        raise CannotMeasure(
            f"{counted(len(outcome.failures), 'conversation')} failed; reasons are in {out / 'failures.jsonl'}"
        )
    if outcome.run.manifest.failed:
        told = failed_summary(outcome.run.manifest.failed)
        raise CannotMeasure(f"{told}, which is no miss; turns and reasons are in {out / 'failures.jsonl'}")


def merge(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The run directory to make.")],
    shards: Annotated[list[Path], typer.Argument(metavar="SHARD…", help="Every shard of the run, in any order.")],
    as_json: Json = False,
) -> None:
    """Make one run of all its shards. It is, byte for byte, what a replay in one piece would have written."""
    from lab.replay.shards import merge as merge_shards

    merged = merge_shards(out, shards, announce)
    if as_json:
        emit_json(
            {
                "run": str(out),
                "status": merged.run.manifest.status,
                "conversations": {"copied": merged.copied, "there": merged.there},
                "notes": list(merged.notes),
            }
        )
        return
    emit(f"{out}: {merged.copied} copied, {merged.there} there already. Next: lab score {out}")


def score(
    run: Annotated[Path, typer.Argument(metavar="DIR", help="A run directory.")],
    measure: Annotated[
        list[str] | None, typer.Option("--measure", "-m", help="Show these measures. Repeat for more.")
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Show every slice, too.")] = False,
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Score a run: means of every measure, by arm and by slice."""
    from lab.measures.catalogue import canonical
    from lab.measures.score import more_measures, score_and_write, score_run, summarise
    from lab.replay.config_notes import embedder_notes
    from lab.report.comparison import sliced_over
    from lab.runs.directory import open_run
    from lab.runs.gold import read_gold
    from lab.runs.trial import trial

    opened = open_run(run, allow_failed=allow_failed)
    also = more_measures(map(canonical, measure or ()), opened.max_items.values())
    scores = score_and_write(opened)
    summary = summarise(score_run(opened, also) if also else scores, read_gold(opened), opened.arms)
    notes, reasons = embedder_notes(opened.manifest.resolved), trial(opened.manifest)
    if as_json:
        emit_json({"trial": list(reasons)} | summary | ({"embedder": list(notes)} if notes else {}))
        return
    wanted = _wanted(summary, opened, measure or ())
    emit_trial(reasons)
    emit_notes(notes)
    _show_means(summary, opened, wanted, asked=bool(measure))
    if slices:
        for name, values in summary["slices"].items():
            for value, arms in values.items():
                emit(f"{name} = {value}")
                _emit_means("arm", arms, wanted)
        for note in sliced_over(wanted):
            emit_folded(note)


def _wanted(summary: dict[str, Any], run: RunDirectory, measures: Sequence[str]) -> list[str]:
    """Return the measures that were asked for, or the headlines; one that is not there is :class:`UnusableInput`."""
    from lab.measures.catalogue import canonical
    from lab.measures.names import require_measure
    from lab.measures.score import headlines

    known = _measured(summary)
    asked = [canonical(name) for name in measures]
    for name in asked:
        if name not in known:
            require_measure(name, "--measure")
            raise UnusableInput(f"--measure {name}: nothing of it is measured in this run; --json shows what is")
    return asked or [name for name in headlines(run.cutoff) if name in known]


def _measured(summary: dict[str, Any]) -> set[str]:
    return {name for arm in summary["arms"].values() for name in arm["measures"]}


def _show_means(summary: dict[str, Any], run: RunDirectory, wanted: Sequence[str], *, asked: bool) -> None:
    """Print means; of headlines, which nobody ``asked`` for by name, how many more there are."""
    from lab.report.comparison import drawn

    _emit_means("arm", summary["arms"], wanted)
    _tell_unseen(summary["arms"])
    if run.labels_are_sampled:
        emit_folded(drawn(run.labels))
    if not asked:
        emit(f"{len(_measured(summary)) - len(wanted)} more measures: lab score -m NAME, or --json for all")


def _tell_unseen(arms: dict[str, Any]) -> None:
    """Say of the leak that no arm may have how sure it is that an arm without one has none."""
    clean: dict[int, list[str]] = {}
    for arm, one in arms.items():
        if "AnyWrongScope" in one["unseen"]:
            clean.setdefault(one["unseen"]["AnyWrongScope"]["n"], []).append(arm)
    for n, names in clean.items():
        most = arms[names[0]]["unseen"]["AnyWrongScope"]["at_most"]
        emit_folded(
            f"AnyWrongScope: never in {counted(n, 'turn')} of {', '.join(names)}; at most {most:.2%} of turns, with "
            "95 % confidence were turns independent"
        )


def _emit_means(title: str, arms: dict[str, Any], wanted: Sequence[str]) -> None:
    emit_table(
        [title, "n", *wanted],
        [[name, one["n"], *(one["measures"].get(measure) for measure in wanted)] for name, one in arms.items()],
    )
