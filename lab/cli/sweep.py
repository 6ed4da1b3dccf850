"""``lab sweep``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_notes, emit_table
from lab.cli.replay_options import asks
from lab.errors import UnusableInput
from lab.formatting import bracketed, counted, signed

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest
    from lab.sweep.front import Configuration
    from lab.sweep.sweep import Swept


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("sweep")(sweep)


@asks(
    "golden",
    "memories",
    "memories_from",
    "source",
    "labels",
    "must_share",
    "nice_share",
    "hard_rules",
    "categories",
    "seed",
    "scope",
    "recall_turns",
    "limit",
    "conversation",
    "embedder",
    "vectors",
    fixed=True,
)
def sweep(
    asked: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results, the table and the charts.")],
    grid: Annotated[
        Path | None,
        typer.Option(help="JSON or TOML: an arm, and the values its knobs take. Default: 200 configurations."),
    ] = None,
    saturated: Annotated[
        bool,
        typer.Option(
            "--saturated", help="Under every size of the must pool, grown in both ways, in place of --labels."
        ),
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --saturated: draws of labels at each size.")] = 1,
    top: Annotated[int, typer.Option(min=1, help="Configurations of the front to show.")] = 12,
    by_draw: Annotated[
        int | None, typer.Option("--by-draw", metavar="#", help="Show one configuration, draw by draw.")
    ] = None,
    jobs: options.Jobs = 1,
    as_json: Json = False,
) -> None:
    """Try hundreds of configurations over one retrieval.

    Writes a table of all of them, the front that nothing beats in hits, repeats and characters, and two charts. Run
    again, it goes on where it was.
    """
    from lab.report.figures import save
    from lab.report.figures_sweep import front_figure, heat_figure
    from lab.sweep.front import configurations, heat, reference, write_configurations
    from lab.sweep.grid import read_grid
    from lab.sweep.sweep import notes_of
    from lab.sweep.sweep import sweep as run

    if saturated and (asked.labels or asked.must_share is not None or asked.nice_share is not None):
        raise UnusableInput("--saturated draws the labels itself; leave out --labels, --must-share and --nice-share")
    if seeds > 1 and not saturated:
        raise UnusableInput("--seeds counts the draws of --saturated; add it, or draw other labels with --seed")
    chosen = read_grid(grid)
    if by_draw is not None and not 0 <= by_draw < len(chosen):
        raise UnusableInput(f"--by-draw {by_draw}: the grid has configurations 0 to {len(chosen) - 1}")
    swept = run(asked, chosen, out, saturated=seeds if saturated else 0, jobs=jobs, announce=announce)
    found = configurations(swept)
    write_configurations(found, out / "configurations.parquet")
    files = save(front_figure(found, reference(swept)), out / "figures" / "front")
    axes = heat(found, swept)
    if axes:
        files += save(heat_figure(found, *axes), out / "figures" / "heat")
    notes = notes_of(out)
    if as_json:
        emit_json(
            {
                "sweep": str(out),
                "configurations": [one._asdict() for one in found],
                "hybrid": reference(swept),
                "figures": [str(file) for file in files],
            }
            | ({"embedder": list(notes)} if notes else {})
        )
        return
    emit_notes(notes)
    _show(swept, found, reference(swept), top, out, files)
    if by_draw is not None:
        _show_draws(swept, by_draw)


def _show_draws(swept: Swept, number: int) -> None:
    from lab.sweep.tally import MEASURES

    at = [MEASURES.index(name) for name in ("Success", "RepeatRate", "InjectedChars", "HardRules")]
    means = swept.means()
    emit()
    emit(f"#{number}, draw by draw")
    rows: list[list[Any]] = []
    for draw, mine, hybrid in zip(swept.draws, means[:, number], means[:, -1], strict=True):
        hit, repeat, chars, hard = (None if mine[one] != mine[one] else float(mine[one]) for one in at)
        name = draw.mode if draw.share is None else f"{draw.mode} {draw.share:.2f}"
        less = None if hit is None else signed(hit - hybrid[at[0]])
        rows.append([name, draw.seed, hit, less, repeat, chars, hard])
    emit_table(["mode, must share", "seed", "hit", "less hybrid", "repeat", "chars", "hard rules"], rows)


def _show(
    swept: Swept,
    found: list[Configuration],
    hybrid: dict[str, float | None],
    top: int,
    out: Path,
    files: list[Path],
) -> None:
    from lab.sweep.front import differences

    front = sorted((one for one in found if one.on_front), key=lambda one: -(one.measures["Success"] or 0.0))
    # Configurations whose knobs change nothing give the same results: one of them speaks for all.
    alike: dict[tuple[Any, ...], list[Configuration]] = {}
    for one in front:
        alike.setdefault(tuple(one.measures.values()), []).append(one)
    front = [some[0] for some in alike.values()]
    several = len(swept.draws) > 1
    over = counted(len(swept.conversations), "conversation")
    emit(f"{counted(len(found), 'configuration')} of {swept.grid.arm}, {over}")
    if several:
        emit(f"{len(swept.draws)} draws of labels; means are over all of them")
    emit(f"{len(front)} that nothing beats in hits, repeats and characters; the first {min(top, len(front))}:")
    heads = ["#", "hit", "over conversations", "less hybrid", "repeat", "chars"]
    heads += ["worst", "most repeat"] if several else []
    rows: list[list[Any]] = []
    for one in front[:top]:
        mean, low, high = differences(swept, one.number, len(swept.grid))
        rows.append(
            [
                one.number,
                one.measures["Success"],
                f"{one.lowest:.2f}…{one.highest:.2f}",
                signed(mean) + bracketed(low, high),
                one.measures["RepeatRate"],
                one.measures["InjectedChars"],
                *([signed(one.behind), one.repeats] if several else []),
            ]
        )
    rows.append(
        ["hybrid", hybrid["Success"], "", "", hybrid["RepeatRate"], hybrid["InjectedChars"]] + [""] * 2 * several
    )
    emit_table(heads, rows)
    emit()
    for one, *others in list(alike.values())[:top]:
        told = ", ".join(f"{name.rpartition('.')[2]} {value}" for name, value in one.knobs.items())
        emit_folded(f"#{one.number}: {told}" + (f" (and {len(others)} with the same results)" if others else ""))
    emit()
    emit_folded(
        "hit: a relevant memory is injected. over conversations: the worst and the best one. less hybrid: against "
        "untiered search, with the 95 % interval." + (" worst: at the draw where it is lowest." if several else "")
    )
    emit_folded(
        f"All of them: {out / 'configurations.parquet'}. Charts: {', '.join(str(file) for file in files[1::2])}"
    )
