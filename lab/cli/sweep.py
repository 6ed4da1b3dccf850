"""``lab study sweep``: compare hundreds of configurations over one retrieval."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.errors import UnusableInput
from lab.base.formatting import bracketed, counted, signed
from lab.cli import options
from lab.cli.output import announce
from lab.cli.replay_options import LABELLED, takes_replay_options
from lab.cli.results import Result
from lab.cli.study import finish
from lab.report.study import Part, Study

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest
    from lab.studies.points import Configuration
    from lab.studies.sweep.sweep import Swept


@takes_replay_options(
    *LABELLED,
    "memories",
    "memories_from",
    "source",
    "haystack",
    "haystack_from",
    "embedder",
    "vectors",
    fixed=True,
    runs="as recordings",
)
def sweep(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results, the table and the page.")],
    grid: Annotated[
        Path | None,
        typer.Option(help="JSON or TOML: an arm and the values of its settings. [default: 200 configurations]"),
    ] = None,
    saturated: Annotated[
        bool,
        typer.Option("--saturated", help="Sample labels with increasing must_remember shares, instead of --labels."),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --saturated: number of label samples at each share.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="Number of Pareto-optimal configurations to show.")] = 12,
    by_draw: Annotated[
        int | None, typer.Option("--by-draw", metavar="#", help="Show one configuration for each label sample.")
    ] = None,
    jobs: options.Jobs = 1,
    slides: options.Slides = False,
) -> Result:
    """Compare hundreds of configurations over one retrieval.

    Writes a table of all configurations, and sweep.html with their Pareto front in hits, repeats and characters.
    Repeating the command continues an interrupted sweep.
    """
    from lab.replay.command import replay_command
    from lab.report.figures_studies import front_chart, heat_chart
    from lab.studies.sweep.front import configurations, heat, reference, write_configurations
    from lab.studies.sweep.grid import read_grid
    from lab.studies.sweep.sweep import notes_of
    from lab.studies.sweep.sweep import sweep as run

    if saturated and (request.labels or request.must_share is not None or request.nice_share is not None):
        raise UnusableInput("--saturated samples the labels itself; omit --labels, --must-share and --nice-share")
    if seeds > 1 and not saturated:
        raise UnusableInput("--seeds needs --saturated; to sample other labels without it, give --seed")
    chosen = read_grid(grid)
    if by_draw is not None and not 0 <= by_draw < len(chosen):
        raise UnusableInput(f"--by-draw {by_draw}: the grid has configurations 0 to {len(chosen) - 1}")
    swept = run(request, chosen, out, saturated=seeds if saturated else 0, jobs=jobs, announce=announce)
    results = configurations(swept)
    write_configurations(results, out / "configurations.parquet")
    axes = heat(results, swept)
    hybrid = reference(swept)
    notes = notes_of(out)
    data = {"sweep": str(out), "configurations": [result._asdict() for result in results], "hybrid": hybrid}
    data |= {"embedder": list(notes)} if notes else {}
    study = Study(
        "sweep",
        {"front": front_chart(results, hybrid)} | ({"heat": heat_chart(results, *axes)} if axes else {}),
        [_front(swept, results, hybrid, top), *([_by_draw(swept, by_draw)] if by_draw is not None else [])],
        data,
        notes,
        ["All configurations: configurations.parquet, beside the page"],
        next=replay_command({**asdict(request), "arms": ("NAME=FILE",)}),
    )
    return finish(study, out, slides=slides)


def _by_draw(swept: Swept, number: int) -> Part:
    from lab.studies.sweep.groups import MEASURES

    columns = [MEASURES.index(name) for name in ("Success", "RepeatRate", "InjectedChars", "HardRules")]
    means = swept.means()
    rows: list[list[Any]] = []
    for draw, values, hybrid in zip(swept.draws, means[:, number], means[:, -1], strict=True):
        hit, repeat, chars, hard = (None if values[i] != values[i] else float(values[i]) for i in columns)
        name = draw.mode if draw.share is None else f"{draw.mode} {draw.share:.2f}"
        difference = None if hit is None else signed(hit - hybrid[columns[0]])
        rows.append([name, draw.seed, hit, difference, repeat, chars, hard])
    headers = ("mode, must share", "seed", "hit", "minus hybrid", "repeat", "chars", "hard rules")
    return Part(f"#{number}, by label sample", headers, rows)


def _front(swept: Swept, results: list[Configuration], hybrid: dict[str, float | None], top: int) -> Part:
    from lab.studies.sweep.front import differences

    front = sorted((result for result in results if result.on_front), key=lambda row: -(row.measures["Success"] or 0.0))
    # Show one of several configurations with equal results: their settings make no difference.
    equal: dict[tuple[Any, ...], list[Configuration]] = {}
    for result in front:
        equal.setdefault(tuple(result.measures.values()), []).append(result)
    shown = list(equal.values())[:top]
    several = len(swept.draws) > 1
    lead = (
        f"{counted(len(results), 'configuration')} of {swept.grid.arm}, "
        f"{counted(len(swept.conversations), 'conversation')}"
        + (f", means over {len(swept.draws)} label samples" if several else "")
        + f". Pareto front in hits, repeats and characters: {len(equal)}; the first {len(shown)}:"
    )
    headers = ["#", "hit", "over conversations", "minus hybrid", "repeat", "chars"]
    headers += ["worst", "most repeat"] if several else []
    rows: list[list[Any]] = []
    notes = []
    interval = "; too few conversations for an interval"
    for result, *others in shown:
        mean, low, high = differences(swept, result.number, len(swept.grid))
        if low is not None:
            interval = ", with its 95 % interval"
        rows.append(
            [
                result.number,
                result.measures["Success"],
                f"{result.lowest:.2f}…{result.highest:.2f}",
                signed(mean) + bracketed(low, high),
                result.measures["RepeatRate"],
                result.measures["InjectedChars"],
                *([signed(result.behind), result.repeats] if several else []),
            ]
        )
        settings = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in result.knobs.items())
        notes.append(
            f"#{result.number}: {settings}" + (f" (and {len(others)} with the same results)" if others else "")
        )
    rows.append(
        ["hybrid", hybrid["Success"], "", "", hybrid["RepeatRate"], hybrid["InjectedChars"]] + [""] * 2 * several
    )
    notes.append(
        "hit: a relevant memory is injected. over conversations: the lowest and the highest mean. minus hybrid: "
        f"difference from untiered search{interval}."
        + (" worst: the lowest difference of any label sample." if several else "")
    )
    return Part(lead, headers, rows, notes=notes)
