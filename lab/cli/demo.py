"""``lab demo``: the main job on what the project ships."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_json, emit_table, emit_trial
from lab.formatting import interval, signed

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "vector", "bm25", "recency", "random", "none", "oracle")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo")(demo)


def demo(
    out: Annotated[Path, typer.Option("--out", help="The run directory.")] = Path("reports/demo"),
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Replay, score and chart the shipped conversations."""
    from lab.compare.paired import compare_arms
    from lab.measures.score import headlines, score_and_write, summarise
    from lab.replay.plan import ReplayRequest
    from lab.replay.run import run_replay
    from lab.report.build import build_report
    from lab.runs.gold import read_gold
    from lab.runs.trial import trial
    from lab.set_registry import shipped
    from lab.sweep.saturation import saturation, write_points

    recordings, golden = shipped("datasets", "operators"), shipped("golden", "operators")
    asked = ReplayRequest(str(recordings), "lab", ARMS, golden=str(golden), scope="recorded")
    outcome = run_replay(asked, out, jobs=jobs, announce=announce)
    run = outcome.run
    scores = score_and_write(run)
    summary = summarise(scores, read_gold(run), run.arms)
    if not (run.path / "saturation.parquet").exists():
        announce("growing the must pool")
        write_points(
            saturation(recordings, "lab", golden=golden, seeds=3, jobs=jobs, scope="recorded"),
            run.path / "saturation.parquet",
        )
    announce("drawing")
    files = build_report(run, "tier_first_v1", "tier_quota_v1")
    comparison = compare_arms(run, "tier_first_v1", "tier_quota_v1")
    reasons = trial(run.manifest)
    if as_json:
        emit_json(
            {
                "run": str(out),
                "trial": list(reasons),
                "scores": summary,
                "comparison": comparison.as_json(),
                "files": [str(file) for file in files],
            }
        )
        return
    emit_trial(reasons)
    emit(
        f"{len(run.conversations)} hand-written conversations, {summary['arms']['none']['n']} probes with gold, "
        "labels and scopes as recorded"
    )
    first = headlines(run.cutoff)
    emit_table(
        ["arm", *first],
        [[name, *(one["measures"].get(measure) for measure in first)] for name, one in summary["arms"].items()],
    )
    for one in comparison.differences:
        if one.measure in comparison.primary and one.estimate.low is not None and one.estimate.high is not None:
            emit(
                f"quota minus first  {one.measure:<11} {signed(one.estimate.mean)}"
                f"  (95 % interval {interval(one.estimate.low, one.estimate.high)})"
            )
    emit(f"Open {files[0]}")
