"""``lab study saturation``: increase the must_remember share and chart every policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, announce
from lab.cli.study import finish


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("saturation")(saturation)


def saturation(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="Folder for saturation.parquet and the page.")],
    golden: options.Golden = None,
    scope: options.Scope = "none",
    haystack: options.Haystack = None,
    haystack_from: options.HaystackFrom = None,
    embedder: options.Embedder = "all-MiniLM-L6-v2",
    seeds: Annotated[int, typer.Option(min=1, help="Number of label samples at each share.")] = 3,
    jobs: options.Jobs = 2,
    slides: options.Slides = False,
    as_json: Json = False,
) -> None:
    """Increase the must_remember share and chart every policy."""
    from lab.report.figures_studies import saturation_chart
    from lab.report.study import Part, Study
    from lab.studies.saturation import FILE, means, write_points
    from lab.studies.saturation import saturation as sweep

    options.require_no_run(out)
    points = sweep(
        path,
        format,
        golden=golden,
        seeds=seeds,
        scope=scope,
        haystack=haystack,
        haystack_from=haystack_from or (),
        embedder=embedder,
        jobs=jobs,
        announce=announce,
    )
    write_points(points, out / FILE)
    headers = ("mode, must share", "arm", "must", "hit@6", "GoldNice@6", "RepeatRate")
    rows = [
        [name, arm, None if must is None else round(must), hit, nice, repeat]
        for (name, arm), (must, hit, nice, repeat) in means(points).items()
    ]
    data = {"points": [point._asdict() for point in points]}
    study = Study("saturation", {"saturation": saturation_chart(points)}, [Part("", headers, rows)], data)
    finish(study, out, slides=slides, as_json=as_json)
