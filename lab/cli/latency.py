"""``lab latency``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.cli import options
from lab.cli.output import Json, announce, emit, emit_folded, emit_json, emit_table

DEFAULT_ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full")
MEGA = 1e6
# A stage that never takes as much is left to latency.json.
SHOWN_FROM = 0.005


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("latency")(latency)


def latency(
    path: options.Recordings,
    format: options.Format,  # noqa: A002 - the name of the option
    out: Annotated[Path, typer.Option("--out", help="Its folder: new, or one made with the same arguments.")],
    arm: Annotated[
        list[str] | None,
        typer.Option("--arm", help="An arm, or NAME=FILE. Repeat for more. [default: both policies and seed_full]"),
    ] = None,
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
    golden: options.Golden = None,
    labels: options.LabelMode = None,
    must_share: options.MustShare = None,
    nice_share: options.NiceShare = None,
    hard_rules: options.HardRules = 0,
    categories: options.Categories = "recorded",
    seed: options.Seed = 0,
    scope: options.Scope = "none",
    recall_turns: options.RecallTurns = None,
    limit: options.Limit = None,
    conversation: options.Conversations = None,
    config: options.Config = None,
    embedder: Annotated[
        str, typer.Option(help="The default model, or a folder with a sentence-transformers model.")
    ] = "all-MiniLM-L6-v2",
    as_json: Json = False,
) -> None:
    """Time the arms over live stores: warm and cold, by stage and size, and with rows waiting for compaction."""
    from lab.files import dump_json, write_whole
    from lab.latency.asked import SIZES, LatencyAsked
    from lab.latency.run import run_latency
    from lab.latency.summary import summarise
    from lab.replay.plan import Asked

    asked = LatencyAsked(
        Asked(
            str(path),
            format,
            tuple(arm or DEFAULT_ARMS),
            golden=str(golden) if golden else None,
            labels=labels,
            must_share=must_share,
            nice_share=nice_share,
            hard_rules=hard_rules,
            categories=categories,
            seed=seed,
            scope=scope,
            recall_turns=recall_turns,
            limit=limit,
            conversation=tuple(conversation or ()),
            config=str(config) if config else None,
            embedder=embedder,
        ),
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
    folder, cells = run_latency(asked, out, announce=announce)
    found = summarise(asked, folder, cells)
    write_whole(out / "latency.json", dump_json(found))
    files = _draw(found, out / "figures")
    if as_json:
        emit_json(found | {"figures": [str(file) for file in files]})
        return
    _tell(found)
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
        files += save(compaction_figure(found["waiting"], found["cadence"]), folder / "compaction")
    return files


def _tell(found: Mapping[str, Any]) -> None:
    for size in found["sizes"]:
        made = size["memories"] - size["real"]
        if made:
            emit_folded(
                f"{size['memories']} memories: {size['real']} of the recordings, {made} resampled from them "
                "(own id, half of the words exchanged for others of the recordings, vector with noise)."
            )
    several = len({one["store"] for one in found["warm"]}) > 1
    _tell_quantiles("Warm: milliseconds a turn [95 % interval]", found["warm"], several)
    if found["open"]:
        _tell_quantiles(f"Open loop, {found['rate']:g} a second, from the intended start", found["open"], several)
    _tell_stages(found["warm"], several)
    _tell_cold(found["cold"])
    _tell_ratios(found, several)
    _tell_memory(found["sizes"])
    _tell_waiting(found["waiting"])
    _tell_cadence(found)
    emit_folded(found["about"])


def _tell_quantiles(title: str, turns: Sequence[Mapping[str, Any]], several: bool) -> None:
    emit()
    emit(title)
    emit_table(
        ["arm", "memories", "n", "p50", "p95", "p99"],
        [
            [
                _named(one, several),
                one["memories"],
                _whole(one)["n"],
                *(_interval(_whole(one)[name]) for name in ("p50", "p95", "p99")),
            ]
            for one in turns
        ],
    )
    passed = sum(one["passed_over"] for one in turns)
    if passed:
        emit_folded(f"{passed} turns that an arm passed over as trivial are not in these: they search nothing.")


def _tell_stages(turns: Sequence[Mapping[str, Any]], several: bool) -> None:
    sizes = list(dict.fromkeys(one["memories"] for one in turns))
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for one in turns:
        for stage, spent in one["stages"].items():
            value = spent["p50"]["value"] if spent["p50"] else None
            if value is not None:
                cells.setdefault((_named(one, several), stage), {})[one["memories"]] = value
    emit()
    emit(f"By stage: p50, milliseconds (stages that take less than {SHOWN_FROM} are left out)")
    emit_table(
        ["arm", "stage", *(f"{size:,}" for size in sizes)],
        [
            [arm, stage, *(values.get(size) for size in sizes)]
            for (arm, stage), values in cells.items()
            if max(values.values()) >= SHOWN_FROM
        ],
        left=2,
    )


def _tell_cold(turns: Sequence[Mapping[str, Any]]) -> None:
    if not turns:
        return
    emit()
    emit("Cold: the first turn of a fresh process, p50 (files may be in the system's cache)")
    names = ("import", "open", "total")
    emit_table(
        ["arm", "memories", "n", "import lancedb", "open table", "first turn"],
        [
            [one["arm"], one["memories"], _whole(one)["n"], *(_interval(one["stages"][name]["p50"]) for name in names)]
            for one in turns
            if one["stages"]
        ],
    )


def _tell_ratios(found: Mapping[str, Any], several: bool) -> None:
    if found["ratios"]:
        emit()
        emit("Arms against the first: median ratio over ABBA blocks of two turns")
        emit_table(
            ["arm", "memories", "blocks", "ratio"],
            [
                [
                    f"{one['candidate']}{' ' + one['store'] if several else ''}",
                    one["memories"],
                    one["blocks"],
                    _interval(one["ratio"], "{:.2f}"),
                ]
                for one in found["ratios"]
            ],
        )
    if found["stores"]:
        emit()
        emit("The exact store against LanceDB: mean milliseconds a turn, times faster")
        emit_table(
            ["arm", "memories", "lancedb", "exact", "times"],
            [
                [one["arm"], one["memories"], one["lancedb_ms"], one["exact_ms"], f"{one['times']:.1f}"]
                for one in found["stores"]
            ],
        )
        agree = [size["agree"] for size in found["sizes"] if size["agree"]]
        same, of = sum(one["turns"] for one in agree), sum(one["of"] for one in agree)
        emit_folded(f"Both chose the same memories in {same} of {of} turns.")


def _tell_memory(sizes: Sequence[Mapping[str, Any]]) -> None:
    emit()
    emit("Memory of the process (RSS) and the table on disk, MB")
    rows = []
    for size in sizes:
        lance = size["stores"].get("lancedb", {})
        process = size["process"]
        rows.append(
            [
                size["memories"],
                *(_mega(process[name]) for name in ("rows", "first", "warm")),
                _mega(size["resident"]),
                _mega(lance.get("bytes")),
            ]
        )
    emit_table(["memories", "before opening", "first turn", "at work", "builder", "on disk"], rows)
    emit_folded(
        "Before opening: Python and the lab's own list of rows. Builder: the process that built the stores and was "
        "measured warm."
    )
    for size in sizes:
        if size["index_recall"] is not None:
            emit_folded(
                f"{size['memories']} memories: vector search is approximate; it found {size['index_recall']:.1%} of "
                "the exact search's first 12."
            )


def _tell_waiting(waiting: Sequence[Mapping[str, Any]]) -> None:
    if not waiting:
        return
    emit()
    emit(f"Rows waiting, on {waiting[0]['memories']} compacted ones: p50 of a turn before and after")
    emit_table(
        ["arm", "waiting", "turn", "compacted", "append", "compact", "changed"],
        [
            [
                one["arm"],
                one["waiting"],
                _value(one["recall"]["p50"]),
                _value(one["compacted"]["p50"]),
                _value(one["append"]["p50"]),
                one["compact_ms"],
                f"{one['changed']['turns']}/{one['changed']['of']}",
            ]
            for one in waiting
        ],
    )
    emit_folded(
        "Compact: one call, all waiting rows. Changed: turns of all arms that chose other memories while rows waited, "
        "for those are scored with other statistics than the indexed ones."
    )


def _tell_cadence(found: Mapping[str, Any]) -> None:
    if not found["cadence"]:
        return
    emit()
    emit("Compacted after every so many rows: one append and one recall a turn, milliseconds")
    emit_table(
        ["arm", "every", "append", "p95", "recall", "p95", "both"],
        [
            [
                one["arm"],
                one["compact_every"],
                one["append"]["mean"],
                _value(one["append"]["p95"]),
                one["recall"]["mean"],
                _value(one["recall"]["p95"]),
                one["turn_mean"],
            ]
            for one in found["cadence"]
        ],
    )
    emit_folded(
        f"Append, recall and both are means. Least for all arms together: every {found['cheapest_cadence']}. Only with "
        "1 do answers not depend on when rows came."
    )


def _named(one: Mapping[str, Any], several: bool) -> str:
    return f"{one['arm']} {one['store']}" if several else str(one["arm"])


def _whole(one: Mapping[str, Any]) -> Mapping[str, Any]:
    empty = {"n": 0, "p50": None, "p95": None, "p99": None}
    return one["stages"].get("total", empty)  # type: ignore[no-any-return]


def _value(quantile: Mapping[str, float] | None) -> float | str:
    return "n too small" if quantile is None else quantile["value"]


def _interval(quantile: Mapping[str, float] | None, form: str = "") -> str:
    if quantile is None:
        return "n too small"
    shown = [(form or _form(quantile["value"])).format(quantile[name]) for name in ("value", "low", "high")]
    return f"{shown[0]} [{shown[1]} {shown[2]}]"


def _form(value: float) -> str:
    return "{:.0f}" if value >= 100 else "{:.1f}" if value >= 1 else "{:.3f}"


def _mega(value: int | None) -> str | None:
    return None if value is None else f"{value / MEGA:.0f}"
