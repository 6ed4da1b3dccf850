"""``lab demo``: the main job on what the project ships."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.formatting import counted, duration, interval, signed
from lab.cli.output import announce, emit, emit_folded, emit_table, emit_trial
from lab.cli.results import Result
from lab.cli.score import emit_card, latency_json, stages_of

if TYPE_CHECKING:
    from lab.compare.paired import Comparison
    from lab.report.build import Built
    from lab.runs.directory import RunDirectory

ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "vector", "bm25", "recency", "random", "none", "oracle")
BASELINE, CANDIDATE = "tier_first_v1", "tier_quota_v1"
STEPS = ("replay", "scores", "gate", "saturation", "report")
POLICY = "rollout"


def demo(
    everything: Annotated[
        bool, typer.Option("--all", help="Replay every shipped conversation, also those added since version 0.1.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="The run directory. [default: reports/demo; with --all reports/demo-all]"),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of processes. [default: one for each processor]")
    ] = None,
) -> Result:
    """Replay, score, judge and chart the shipped conversations.

    The table and the verdict of policy rollout come first, then charts and a page. Its exit code is 0 whatever the
    verdict says: the demo only shows it.

    Without --all these are the 24 of version 0.1, however many are added: time and figures stay the same.
    """
    from lab.base.processes import processors
    from lab.base.set_registry import DEMO, shipped
    from lab.compare.paired import compare_arms
    from lab.gate.action import why
    from lab.gate.outputs import write_verdict
    from lab.gate.policy import read_policy
    from lab.gate.verdict import judge
    from lab.measures.score import headlines, score_and_write, summarise
    from lab.replay.run import run_replay
    from lab.report.build import write_report
    from lab.runs.notes import trial
    from lab.runs.request import ReplayRequest
    from lab.runs.scores import read_gold
    from lab.runs.tables import write_points
    from lab.studies.points import SATURATION, SaturationPoint
    from lab.studies.saturation import saturation

    out = out or Path("reports/demo-all" if everything else "reports/demo")
    recordings, golden = shipped("datasets", "operators"), shipped("golden", "operators")
    others = {path.stem for path in recordings.glob("*.jsonl")} - set(DEMO)
    chosen = DEMO if others and not everything else ()
    request = ReplayRequest(str(recordings), "lab", ARMS, golden=str(golden), scope="recorded", conversation=chosen)
    jobs = jobs or processors()
    took: dict[str, float] = {}
    with _step("replay", took):
        run = run_replay(request, out, jobs=jobs, announce=announce).run
    with _step("scores", took):
        scores = score_and_write(run)
        summary = summarise(scores, read_gold(run), run.arms)
        comparison = compare_arms(run, BASELINE, CANDIDATE, scores=scores)
        times = stages_of(run)
    with _step("gate", took):
        verdict = judge(read_policy(POLICY), run, turns=True)
        write_verdict(verdict, run.path)
    found = {
        "run": str(out),
        "trial": list(trial(run.manifest)),
        "scores": summary,
        "latency": latency_json(times),
        "comparison": comparison.as_json(),
        "verdict": verdict.as_json(),
    }

    def show(found: dict[str, Any]) -> None:
        emit_trial(found["trial"])
        n = summary["arms"]["none"]["n"]
        emit_folded(
            f"{counted(len(run.conversations), 'conversation')}, {counted(n, 'probe')} with gold, labels and scopes as "
            f"recorded, {run.haystack}"
        )
        first = headlines(run.cutoff)
        emit_table(
            ["arm", *first],
            [[name, *(means["measures"].get(measure) for measure in first)] for name, means in summary["arms"].items()],
        )
        emit_card(summary["arms"], times, run.cutoff)
        for difference in comparison.differences:
            mean, low, high = difference.estimate.mean, difference.estimate.low, difference.estimate.high
            if difference.measure in comparison.primary and low is not None and high is not None:
                emit(
                    f"quota minus first  {difference.measure:<11} {signed(mean)}  (95 % interval {interval(low, high)})"
                )
        emit_folded(f"{verdict.status.upper()} (policy {POLICY}): {why(verdict)}.")

    def go_on() -> Result:
        """Draw the charts, which take longer than the verdict that is printed before."""
        with _step("saturation", took):
            if not (run.path / SATURATION).exists():
                points = saturation(request, seeds=3, jobs=jobs, announce=announce)
                write_points(SaturationPoint, points, run.path / SATURATION)
        with _step("report", took):
            built = write_report(run, BASELINE, CANDIDATE)

        def show_rest(_: object) -> None:
            spent = ", ".join(f"{name} {duration(part)}" for name, part in took.items())
            emit_folded(f"Took {duration(sum(took.values()))}: {spent}.")
            emit_next(run, comparison, built, more=len(others) if chosen else 0)

        files = {"files": [str(file) for file in built.files]}
        return Result(found | files | {"seconds": {name: round(spent, 1) for name, spent in took.items()}}, show_rest)

    return Result(found, show, lambda _: None, then=go_on)


@contextmanager
def _step(name: str, took: dict[str, float]) -> Iterator[None]:
    """Announce a step and the time that it took, and keep that in ``took``, in seconds."""
    place = f"step {STEPS.index(name) + 1} of {len(STEPS)}, {name}"
    announce(place)
    started = time.perf_counter()
    yield
    took[name] = time.perf_counter() - started
    announce(f"{place}: {duration(took[name])}")


def emit_next(run: RunDirectory, comparison: Comparison, built: Built, *, more: int) -> None:
    """Print what to do next: the page, the turn that it names, else one that changed, and the conversations left out.

    The arm is always named: the command explains the first one otherwise.
    """
    emit("Next:")
    emit(f"  open {built.files[0]}")
    words = shlex.split(built.opening.action.command or "")
    if words[:2] != ["lab", "explain"]:
        turn = next(iter((*comparison.gained, *comparison.lost)), None)
        words = ["lab", "explain", "DIR", turn, "--arm", comparison.candidate, "--with-text"] if turn else []
    if words:
        emit(f"  {_command(*(str(run.path) if word == 'DIR' else word for word in words[1:]))}")
    if more:
        emit(f"  {_command('demo', '--all')}   (with {counted(more, 'more conversation')})")


def _command(*words: str) -> str:
    """A command of ours as it can be typed here: ``lab`` where that is on the path, else as it was called."""
    called = sys.argv[0] if Path(sys.argv[0]).name == "lab" and shutil.which("lab") is None else "lab"
    return shlex.join([called, *words])
