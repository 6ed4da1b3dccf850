"""``lab replay``: replay recordings through arms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import CannotMeasure, UnusableInput
from lab.base.formatting import counted
from lab.cli import options
from lab.cli.errata import NOTHING, scores_beside
from lab.cli.output import announce, emit_next
from lab.cli.replay_options import REPLAY, takes_replay_options
from lab.cli.results import Result
from lab.cli.score import latency_json, measures_shown, notes_json, show_means, show_notes, stages_of

if TYPE_CHECKING:
    from lab.measures.latency import Stage
    from lab.runs.directory import RunDirectory
    from lab.runs.request import ReplayRequest


# Count of conversations -> field of the outcome.
CONVERSATIONS = {"done": "done", "skipped": "skipped", "failed": "failures"}
# The two policies to compare, and untiered search as a reference.
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid")


@takes_replay_options(*REPLAY, arms=ARMS)
def replay(
    request: ReplayRequest,
    *,
    out: options.RunFolder,
    jobs: options.Jobs = 1,
    dask: options.Dask = None,
    shard: options.ShardOf = None,
    and_score: Annotated[bool, typer.Option("--score", help="Score the run afterwards, like lab score.")] = False,
    errata: options.Errata = None,
) -> Result:
    """Replay recordings turn by turn through one or more arms."""
    from lab.base.shape import to_json
    from lab.replay.run import parse_shard, run_replay
    from lab.runs.notes import trial, why_failed

    part = parse_shard(shard) if shard else None
    times: list[Stage] = []
    beside = NOTHING
    if part and and_score:
        raise UnusableInput("--score does not work with --shard; use lab runs merge OUT SHARD…, then lab score OUT")
    if errata and not (and_score and errata.is_file()):
        why = "needs --score, whose figures it corrects" if errata.is_file() else "no such file"
        raise UnusableInput(f"--errata {errata}: {why}")
    outcome = run_replay(request, out, jobs=jobs, dask=dask, shard=part, announce=announce)
    run, manifest = outcome.run, outcome.run.manifest
    error = None
    if outcome.failures:
        failed = counted(len(outcome.failures), "conversation")
        error = CannotMeasure(f"{failed} failed; see {out / 'failures.jsonl'}")
    elif manifest.failed:
        error = CannotMeasure(f"{why_failed(run)}. Failed recalls do not count as misses; see {out / 'failures.jsonl'}")
    found: dict[str, Any] = {
        "run": str(out),
        "trial": list(trial(manifest)),
        "status": manifest.status,
        "conversations": {name: len(getattr(outcome, field)) for name, field in CONVERSATIONS.items()},
        "failed_recalls": dict(manifest.failed),
        "embedded": outcome.embedded,
        "labels": to_json(manifest.resolved.labels),
    }
    if part:
        found["shard"] = str(run.shard)
    if and_score and error is None:
        from lab.measures.score import score_and_write, summarise
        from lab.runs.scores import read_gold

        found["scores"] = summarise(score_and_write(run), read_gold(run), run.arms)
        times = stages_of(run)
        found["latency"] = latency_json(times)
        beside = scores_beside(run, errata)

    def show(found: dict[str, Any]) -> None:
        _show_replay(found, run, times)
        beside.show()

    return Result(found | notes_json(run) | beside.value, show, error=error)


def _show_replay(found: dict[str, Any], run: RunDirectory, times: Sequence[Stage]) -> None:
    show_notes(found, run)
    out, counts = found["run"], found["conversations"]
    scored = "scores" in found
    has_next = not (scored or found["failed_recalls"]) and bool(counts["done"] or counts["skipped"])
    command = f"lab runs merge OUT {out} …" if "shard" in found else f"lab score {out}"
    done = f"{out}: {', '.join(f'{count} {name}' for name, count in counts.items())}."
    emit_next(done, command if has_next else None)
    if scored:
        show_means(found["scores"], run, measures_shown(found["scores"], run, []), times)
