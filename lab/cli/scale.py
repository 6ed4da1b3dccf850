"""``lab study scale``: replay with more and more memories."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.options import LABELLED, takes_replay_options
from lab.cli.output import Json, announce
from lab.cli.study import finish

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest

LEGEND = (
    "In reach: how many memories a probe could recall, on average. RepeatRate: – if no two turns of a conversation "
    "recall (--recall-turns all makes every turn recall). p50, p95: wall-clock time of a recall without embedding its "
    "prompt and without the first recall of each conversation; other load on the machine raises p95 most."
)
ARMS = ("tier_first_v1", "tier_quota_v1", "hybrid", "vector", "bm25", "random")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("scale")(scale)


@takes_replay_options(*LABELLED, "profile", "memories", "haystack_from", "max_items", "config", "embedder", arms=ARMS)
def scale(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for a run of each size, the table and the page.")],
    haystack: Annotated[
        list[int] | None,
        typer.Option(
            "--haystack",
            min=0,
            help="A size to compare: number of memories of other conversations added to each conversation. Repeat for "
            "more. [default: 0, 25, 100, 400, 1600, 6400]",
        ),
    ] = None,
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
    as_json: Json = False,
) -> None:
    """Replay with more and more memories and chart every arm.

    Shows hits, clean hits, repeats and the time of a turn at each size. Sizes for which the recordings have too few
    memories are not available, unless --haystack-from names other sets. Repeating the command continues.
    """
    from lab.report.figures_studies import scale_chart
    from lab.report.study import Part, Study
    from lab.runs.notes import trial_line
    from lab.studies.scale import SIZES
    from lab.studies.scale import scale as measure

    options.require_no_run(out)
    result = measure(request, out, haystack or SIZES, jobs=jobs, announce=announce)
    source = f"recall lab: {request.format} recordings {Path(request.path).name}, {result.about}" + "".join(
        f"; {line}" for line in [trial_line(result.trial)] if line
    )
    k = result.cutoff
    table = Part(
        "",
        ("haystack", "arm", "in reach", f"hit@{k}", f"CleanHit@{k}", "RepeatRate", "p50 ms", "p95 ms"),
        [
            [point.memories, point.arm, None if point.in_reach is None else round(point.in_reach), *point[3:]]
            for point in result.points
        ],
    )
    study = Study(
        "scale",
        {"scale": scale_chart(result.points, k).of(source)},
        [table],
        result.as_json() | {"scale": str(out)},
        result.about,
        (LEGEND, *result.notes()),
        result.trial,
    )
    finish(study, out, slides=slides, as_json=as_json)
