"""``lab study saturation``: increase the must_remember share and chart every policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_json, emit_table


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("saturation")(saturation)


def saturation(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="Folder for saturation.parquet and the charts.")],
    golden: options.Golden = None,
    scope: options.Scope = "none",
    haystack: options.Haystack = None,
    haystack_from: options.HaystackFrom = None,
    embedder: options.Embedder = "all-MiniLM-L6-v2",
    seeds: Annotated[int, typer.Option(min=1, help="Number of label samples at each share.")] = 3,
    jobs: options.Jobs = 2,
    as_json: Json = False,
) -> None:
    """Increase the must_remember share and chart every policy."""
    from lab.report.figures_studies import saturation_chart
    from lab.report.slides import draw, save
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
    files = save(draw(saturation_chart(points)), out / "saturation")
    if as_json:
        emit_json({"points": [point._asdict() for point in points], "figures": [str(file) for file in files]})
        return
    rows = [
        [name, arm, None if must is None else round(must), hit, nice, repeat]
        for (name, arm), (must, hit, nice, repeat) in means(points).items()
    ]
    emit_table(["mode, must share", "arm", "must", "hit@6", "GoldNice@6", "RepeatRate"], rows)
    emit(f"Charts: {', '.join(str(file) for file in files)}")
