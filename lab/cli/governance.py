"""``lab study governance``: move the grading thresholds and chart both policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import options
from lab.cli.options import TURNS, takes_replay_options
from lab.cli.output import Json, announce
from lab.cli.study import finish

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("governance")(governance)


@takes_replay_options(
    *TURNS, "golden", "memories", "haystack", "haystack_from", "categories", "config", "embedder", fixed=True
)
def governance(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for governance.parquet and the page.")],
    grader: Annotated[
        list[str] | None,
        typer.Option(
            help="heuristic-v1, the sidecar's grade of the text, or category, the importance that a capture of the "
            "memory's category gets. Repeat for more. [default: heuristic-v1]"
        ),
    ] = None,
    threshold: Annotated[
        list[float] | None,
        typer.Option(
            help="A score from which memories are must_remember. Repeat for more. [default: 1.00 to 0.30 in steps of "
            "0.05]"
        ),
    ] = None,
    nice_from: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="The score from which memories are nice_to_have; below, they are ignored."),
    ] = 0.5,
    jobs: options.Jobs = 2,
    slides: options.Slides = False,
    as_json: Json = False,
) -> None:
    """Move the grading thresholds and chart both policies.

    Every memory is graded. A lower threshold of must_remember gives more of them that label, until tier_first_v1
    injects nothing else: there, grading alone saturates recall.
    """
    from lab.report.figures_studies import governance_chart
    from lab.report.study import Part, Study
    from lab.studies.governance import STEPS, distinct, finding, write_points
    from lab.studies.governance import governance as sweep

    options.require_no_run(out)
    graders = list(dict.fromkeys(grader or ["heuristic-v1"]))
    points = sweep(
        request,
        graders=graders,
        thresholds=threshold or STEPS,
        nice_from=nice_from,
        jobs=jobs,
        announce=announce,
    )
    write_points(points, out / "governance.parquet")
    headers = ("from", "arm", "must", "nice", "ignored", "hit@6", "repeat", "full")
    parts = [
        Part(
            f"{finding(points, name)}.",
            headers,
            [
                [
                    "" if point.must_from is None else f"{point.must_from:.2f}",
                    point.arm,
                    *(point.must, point.nice, point.ignored, point.hit, point.repeat, point.full),
                ]
                for point in distinct(points, name)
            ],
            2,
        )
        for name in graders
    ]
    note = (
        "must, nice, ignored: shares of all memories; automatic recall never reads ignored ones. full: share of the "
        "recalls that inject must_remember memories alone. Thresholds that change no label are left out. The last rows "
        "ignore labels."
    )
    data = {"points": [point._asdict() for point in points]}
    study = Study("governance", {"governance": governance_chart(points)}, parts, data, notes=[note])
    finish(study, out, slides=slides, as_json=as_json)
