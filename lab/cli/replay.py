"""``lab replay`` and ``lab score``: replay recordings through arms, and print the means of their measures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import counted
from lab.cli import options
from lab.cli.options import REPLAY, takes_replay_options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_next, emit_notes, emit_table, emit_trial

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab.runs.request import ReplayRequest


# The two policies to compare, and untiered search as a reference.
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("replay")(replay)
    app.command("score")(score)


@takes_replay_options(*REPLAY, arms=ARMS)
def replay(
    request: ReplayRequest,
    *,
    out: options.RunFolder,
    jobs: options.Jobs = 1,
    dask: options.Dask = None,
    shard: options.ShardOf = None,
    and_score: Annotated[bool, typer.Option("--score", help="Score the run afterwards, like lab score.")] = False,
    as_json: Json = False,
) -> None:
    """Replay recordings turn by turn through one or more arms."""
    from lab.base.shape import to_json
    from lab.replay.run import parse_shard, run_replay
    from lab.runs.notes import config_notes, trial, why_failed

    part = parse_shard(shard) if shard else None
    if part and and_score:
        raise UnusableInput("--score does not work with --shard; use lab runs merge OUT SHARD…, then lab score OUT")
    outcome = run_replay(request, out, jobs=jobs, dask=dask, shard=part, announce=announce)
    origins = outcome.run.manifest.origins
    notes = config_notes(outcome.run.manifest.resolved)
    summary = None
    if and_score and not outcome.failures and not outcome.run.manifest.failed:
        from lab.measures.score import score_and_write, summarise
        from lab.runs.scores import read_gold

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
            | ({"origins": to_json(origins)} if origins else {})
        )
    else:
        emit_trial(reasons)
        emit_notes((*outcome.run.manifest.origin_notes, *notes))
        done = f"{out}: {len(outcome.done)} done, {len(outcome.skipped)} skipped, {len(outcome.failures)} failed."
        has_next = not (summary or outcome.run.manifest.failed) and bool(outcome.done or outcome.skipped)
        emit_next(done, (f"lab runs merge OUT {out} …" if part else f"lab score {out}") if has_next else None)
        if summary:
            _show_means(summary, outcome.run, _measures_shown(summary, outcome.run, []), selected=False)
    if outcome.failures:
        raise CannotMeasure(f"{counted(len(outcome.failures), 'conversation')} failed; see {out / 'failures.jsonl'}")
    if outcome.run.manifest.failed:
        raise CannotMeasure(
            f"{why_failed(outcome.run)}. Failed recalls do not count as misses; see {out / 'failures.jsonl'}"
        )


def score(
    run: Annotated[Path | None, typer.Argument(metavar="DIR", help="A run directory.")] = None,
    measure: Annotated[
        list[str] | None,
        typer.Option("--measure", "-m", help="Show this measure. Repeat for more. [default: the main ones]"),
    ] = None,
    slices: Annotated[bool, typer.Option("--slices", help="Also show the means of every slice.")] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="List every measure with its definition, range and source; score nothing.")
    ] = False,
    allow_failed: options.AllowFailed = False,
    as_json: Json = False,
) -> None:
    """Score a run: means of the headline measures by arm.

    -m and --json show the other measures.
    """
    if listed:
        _list_measures(as_json)
        return
    if run is None:
        raise UnusableInput("give the run directory to score, or --list to list the measures")
    from lab.base.shape import to_json
    from lab.measures.catalogue import canonical
    from lab.measures.score import more_measures, score_and_write, score_run, summarise, unequal_counts
    from lab.report.comparison import sliced_over
    from lab.runs.directory import open_run
    from lab.runs.notes import config_notes, trial
    from lab.runs.scores import read_gold

    opened = open_run(run, allow_failed=allow_failed)
    also = more_measures(map(canonical, measure or ()), opened.max_items.values())
    scores = score_and_write(opened)
    summary = summarise(score_run(opened, also) if also else scores, read_gold(opened), opened.arms)
    notes, reasons = config_notes(opened.manifest.resolved), trial(opened.manifest)
    if as_json:
        origins = opened.manifest.origins
        emit_json(
            {"trial": list(reasons)}
            | summary
            | ({"embedder": list(notes)} if notes else {})
            | ({"origins": to_json(origins)} if origins else {})
        )
        return
    shown = _measures_shown(summary, opened, measure or ())
    emit_trial(reasons)
    emit_notes((*opened.manifest.origin_notes, *notes))
    _show_means(summary, opened, shown, selected=bool(measure))
    for name, counts in unequal_counts(scores, shown).items():
        emit_folded(f"{name} is over other turns in each arm: {', '.join(f'{arm} {n}' for arm, n in counts.items())}")
    if slices:
        for name, values in summary["slices"].items():
            for value, arms in values.items():
                emit(f"{name} = {value}")
                _emit_means("arm", arms, shown)
        for note in sliced_over(shown):
            emit_folded(note)


def _list_measures(as_json: bool) -> None:
    from lab.measures.catalogue import CATALOGUE
    from lab.report.tables import folded

    if as_json:
        emit_json({"measures": [measure.as_json() for measure in CATALOGUE]})
        return
    rows: list[list[str]] = []
    for measure in CATALOGUE:
        rows.append([measure.title, measure.better, measure.unit, str(measure.range), measure.source])
        rows.append([folded(measure.definition, "    ")])
    emit_table(["measure", "better", "per", "range", "source"], rows, left=5)


def _measures_shown(summary: dict[str, Any], run: RunDirectory, selected: Sequence[str]) -> list[str]:
    """Return the measures selected by the user, or the main ones. Raises :class:`UnusableInput` for an absent one."""
    from lab.measures.catalogue import canonical, require_measure
    from lab.measures.score import headlines, with_judged

    known = _measured(summary)
    names = [canonical(name) for name in selected]
    for name in names:
        if name not in known:
            require_measure(name, "--measure")
            raise UnusableInput(f"--measure {name}: has no values in this run; --json lists the measures that have")
    return names or [name for name in with_judged(headlines(run.cutoff)) if name in known]


def _measured(summary: dict[str, Any]) -> set[str]:
    return {name for arm in summary["arms"].values() for name in arm["measures"]}


def _show_means(summary: dict[str, Any], run: RunDirectory, shown: Sequence[str], *, selected: bool) -> None:
    """Print what was replayed, the means, and unless the user ``selected`` the measures, how many more there are."""
    from lab.report.comparison import drawn

    emit_folded(f"{counted(len(run.conversations), 'conversation')}, labels {run.labels}")
    emit_folded(run.haystack)
    _emit_means("arm", summary["arms"], shown)
    _emit_wrong_scope_bound(summary["arms"])
    if run.labels_are_sampled:
        emit_folded(drawn(run.labels))
    if not selected:
        emit(f"{len(_measured(summary)) - len(shown)} more measures: lab score -m NAME, or --json for all")


def _emit_wrong_scope_bound(arms: dict[str, Any]) -> None:
    """Print the upper bound on the rate of scope leaks for arms in which none was observed."""
    clean: dict[int, list[str]] = {}
    for arm, scores in arms.items():
        if "AnyWrongScope" in scores["unseen"]:
            clean.setdefault(scores["unseen"]["AnyWrongScope"]["n"], []).append(arm)
    for n, names in clean.items():
        bound = arms[names[0]]["unseen"]["AnyWrongScope"]["at_most"]
        emit_folded(
            f"AnyWrongScope: 0 of {counted(n, 'turn')} of {', '.join(names)}; upper 95 % confidence bound "
            f"{bound:.2%} of turns, if turns are independent"
        )


def _emit_means(title: str, arms: dict[str, Any], shown: Sequence[str]) -> None:
    emit_table(
        [title, "n", *shown],
        [[name, scores["n"], *(scores["measures"].get(measure) for measure in shown)] for name, scores in arms.items()],
    )
