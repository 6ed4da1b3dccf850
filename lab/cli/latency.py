"""``lab latency``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli.latency_tables import emit_latency
from lab.cli.output import Json, announce, emit_folded, emit_json
from lab.cli.replay_options import LABELLED, asks

if TYPE_CHECKING:
    from lab.replay.plan import ReplayRequest

DEFAULT_ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("latency")(latency)


@asks(*LABELLED, "config", "embedder", arms=DEFAULT_ARMS, told="both policies and seed_full")
def latency(
    asked: ReplayRequest,
    *,
    out: Annotated[Path, typer.Option("--out", help="Its folder: new, or one made with the same arguments.")],
    memories: Annotated[
        list[int] | None,
        typer.Option(help="Size of a store; repeat for a curve. [default: 1000, 10000 and 100000]"),
    ] = None,
    store: Annotated[
        list[str] | None, typer.Option(help="lancedb or exact; both to compare them. [default: lancedb]")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Warm turns that count; p99 needs 368.")] = 400,
    warm_up: Annotated[int, typer.Option(min=0, help="Turns before these that do not count.")] = 10,
    cold: Annotated[int, typer.Option(min=0, help="Fresh processes for each arm; p50 needs 6.")] = 6,
    rate: Annotated[
        float | None, typer.Option(help="Also an open loop: so many requests a second, each arm by itself.")
    ] = None,
    compact_every: Annotated[
        str, typer.Option(help="Cadences to sweep, with commas between; rows, or never.")
    ] = "1,16,128,never",
    appends: Annotated[int, typer.Option(min=0, help="Rows appended under each cadence; 0: no sweep.")] = 256,
    waiting: Annotated[
        str, typer.Option(help="Rows appended and not compacted, with commas between, to time turns over.")
    ] = "0,10,100,1000",
    grow_from: Annotated[
        int | None,
        typer.Option(min=0, help="Compacted rows under those; 0: none, and no index. [default: the smallest size]"),
    ] = None,
    vector_index: Annotated[
        str, typer.Option(help="none: exact search. ivf_flat: approximate, for large stores.")
    ] = "none",
    as_json: Json = False,
) -> None:
    """Time the arms over live stores. Warm and cold, by stage and size, and with rows waiting for compaction."""
    from lab.files import dump_json, write_atomically
    from lab.latency.request import SIZES, LatencyRequest
    from lab.latency.run import run_latency
    from lab.latency.summary import summarise

    wanted = LatencyRequest(
        asked,
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
    folder, cells = run_latency(wanted, out, announce=announce)
    found = summarise(wanted, folder, cells)
    write_atomically(out / "latency.json", dump_json(found))
    files = _draw(found, out / "figures")
    if as_json:
        emit_json(found | {"figures": [str(file) for file in files]})
        return
    emit_latency(found)
    emit_folded(f"All of it: {out / 'latency.json'}; samples in {out / 'samples'}. Charts: {out / 'figures'}")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole_numbers(text: str) -> list[int]:
    from lab.errors import UnusableInput

    for part in _parts(text):
        if not part.isdecimal():
            raise UnusableInput(f"waiting {part!r} is not a whole number from 0")
    return sorted(map(int, _parts(text)))


def _draw(found: Mapping[str, Any], folder: Path) -> list[Path]:
    from lab.report.figures import save
    from lab.report.figures_latency import compaction_figure, size_figure, stages_figure

    files = save(size_figure(found["warm"]), folder / "latency_by_size")
    files += save(stages_figure(found["warm"]), folder / "stages")
    if found["waiting"] or found["cadence"]:
        files += save(compaction_figure(found["waiting"], found["cadence"], found["left_out"]), folder / "compaction")
    return files
