"""``lab study latency``: measure the latency of arms over live stores."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.latency_tables import emit_latency
from lab.cli.options import LABELLED, takes_replay_options
from lab.cli.output import Json, announce, emit_folded, emit_json

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest

DEFAULT_ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("latency")(latency)


@takes_replay_options(*LABELLED, "config", "embedder", arms=DEFAULT_ARMS)
def latency(
    request: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="The output folder: new, or made with the same arguments.")],
    memories: Annotated[
        list[int] | None,
        typer.Option(help="Number of memories in the store. Repeat for a curve. [default: 1000, 10000 and 100000]"),
    ] = None,
    store: Annotated[
        list[str] | None, typer.Option(help="lancedb or exact. Repeat to compare both. [default: lancedb]")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Number of measured warm turns; p99 needs 368.")] = 400,
    warm_up: Annotated[int, typer.Option(min=0, help="Number of unmeasured turns before them.")] = 10,
    cold: Annotated[int, typer.Option(min=0, help="Number of fresh processes per arm; p50 needs 6.")] = 6,
    rate: Annotated[
        float | None, typer.Option(help="Also run an open loop with this many requests a second, one arm at a time.")
    ] = None,
    compact_every: Annotated[
        str, typer.Option(help="Compaction cadences to compare: numbers of rows or never, comma-separated.")
    ] = "1,16,128,never",
    appends: Annotated[
        int, typer.Option(min=0, help="Number of rows appended under each cadence; 0 skips the comparison.")
    ] = 256,
    waiting: Annotated[
        str, typer.Option(help="Numbers of uncompacted rows to time turns with, comma-separated.")
    ] = "0,10,100,1000",
    grow_from: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of compacted rows in the store for these; 0: none and no index. [default: the smallest size]",
        ),
    ] = None,
    vector_index: Annotated[
        str, typer.Option(help="none: exact search. ivf_flat: approximate search, for large stores.")
    ] = "none",
    as_json: Json = False,
) -> None:
    """Measure the latency of arms over live stores.

    Measures warm and cold turns, by stage and store size, and turns over rows that wait for compaction.
    """
    from lab.base.files import dump_json, write_atomically
    from lab.studies.latency.request import SIZES, LatencyRequest
    from lab.studies.latency.run import run_latency
    from lab.studies.latency.summary import summarise

    latency_request = LatencyRequest(
        request,
        sizes=tuple(sorted(memories or SIZES)),
        stores=tuple(store or ("lancedb",)),
        turns=turns,
        warm_up=warm_up,
        cold=cold,
        rate=rate,
        cadences=tuple(_parts(compact_every)),
        appends=appends,
        waiting=tuple(_whole_numbers(waiting)),
        grow_from=grow_from,
        vector_index=vector_index,
    )
    folder, cells = run_latency(latency_request, out, announce=announce)
    summary = summarise(latency_request, folder, cells)
    write_atomically(out / "latency.json", dump_json(summary))
    files = _draw(summary, out / "figures")
    if as_json:
        emit_json(summary | {"figures": [str(file) for file in files]})
        return
    emit_latency(summary)
    emit_folded(f"All figures: {out / 'latency.json'}; samples: {out / 'samples'}; charts: {out / 'figures'}")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole_numbers(text: str) -> list[int]:
    from lab.base.errors import UnusableInput

    for part in _parts(text):
        if not part.isdecimal():
            raise UnusableInput(f"--waiting: {part!r} is not a whole number of 0 or more")
    return sorted(map(int, _parts(text)))


def _draw(summary: Mapping[str, Any], folder: Path) -> list[Path]:
    from lab.report.figures_latency import compaction_chart, size_chart, stages_chart
    from lab.report.slides import draw, save

    files = save(draw(size_chart(summary["warm"])), folder / "latency_by_size")
    files += save(draw(stages_chart(summary["warm"])), folder / "stages")
    if summary["waiting"] or summary["cadence"]:
        files += save(
            draw(compaction_chart(summary["waiting"], summary["cadence"], summary["left_out"])), folder / "compaction"
        )
    return files
