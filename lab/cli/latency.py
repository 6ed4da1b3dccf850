"""``lab study latency``: measure the latency of arms over live stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.base.formatting import milliseconds
from lab.cli import options
from lab.cli.output import announce
from lab.cli.replay_options import LABELLED, takes_replay_options
from lab.cli.results import Result
from lab.cli.study import finish
from lab.report.study import Part, Study

if TYPE_CHECKING:
    from lab.runs.request import ReplayRequest

MEGA = 1e6
# A stage with a smaller share of the turn is shown only in latency.json.
SHOWN_FROM = 0.01
# What is timed of a turn.
STAGES = {"turn": "a turn", "recall": "its recall", "embed": "the embedding of its prompt"}
WITHOUT = (
    "The prompts were not embedded again, so a turn waits longer than its recall. --embed embeds them; a remote "
    "embedder then gets each prompt once per arm, store and size."
)
DEFAULT_ARMS = ("tier_first_v1", "tier_quota_v1", "seed_full")


@takes_replay_options(*LABELLED, "config", "embedder", arms=DEFAULT_ARMS, runs="as recordings")
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
    embed: Annotated[
        bool | None,
        typer.Option(
            "--embed/--no-embed",
            help="Embed each prompt again in each timed turn. [default: unless that sends it to another machine]",
        ),
    ] = None,
    slides: options.Slides = False,
) -> Result:
    """Measure the latency of arms over live stores.

    Measures warm and cold turns, by stage and store size, and turns over rows that wait for compaction. A warm turn is
    the embedding of its prompt and the recall. Writes latency.json and latency.html.
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
        embed=embed,
    )
    folder, cells = run_latency(latency_request, out, announce=announce)
    summary = summarise(latency_request, folder, cells)
    write_atomically(out / "latency.json", dump_json(summary))
    return finish(study_of(summary, out), out, slides=slides)


def study_of(summary: Mapping[str, Any], out: Path) -> Study:
    """Return the page of a summary of :func:`lab.studies.latency.summary.summarise`."""
    from lab.report.figures_studies import compaction_chart, size_chart, stages_chart

    charts = {
        "latency_by_size": size_chart(summary["warm"]),
        "stages": stages_chart(summary["warm"]),
    }
    if summary["waiting"] or summary["cadence"]:
        charts["compaction"] = compaction_chart(summary["waiting"], summary["cadence"], summary["left_out"])
    return Study(
        "latency",
        charts,
        parts_of(summary),
        summary,
        about_of(summary),
        [
            *([summary["left_out"]] if summary["left_out"] else []),
            *([] if summary["embedded"] else [WITHOUT]),
            summary["about"],
            f"All figures: {out / 'latency.json'}; samples: {out / 'samples'}",
        ],
    )


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _whole_numbers(text: str) -> list[int]:
    from lab.base.errors import UnusableInput

    for part in _parts(text):
        if not part.isdecimal():
            raise UnusableInput(f"--waiting: {part!r} is not a whole number of 0 or more")
    return sorted(map(int, _parts(text)))


def parts_of(summary: Mapping[str, Any]) -> list[Part]:
    """Return the tables of a summary of :func:`lab.studies.latency.summary.summarise`."""
    parts = [part for of_kind in (_turns(summary), _stores(summary), _growth(summary)) for part in of_kind]
    return [part for part in parts if part.rows]


def about_of(summary: Mapping[str, Any]) -> list[str]:
    """Return how many memories of each size are resampled."""
    return [
        f"{size['memories']:,} memories: {size['real']:,} from the recordings, {made} resampled from them "
        "(new id, half of the words replaced by others of the recordings, noise added to the vector)."
        for size in summary["sizes"]
        if (made := size["memories"] - size["real"])
    ]


def _turns(summary: Mapping[str, Any]) -> Iterator[Part]:
    stores = list(dict.fromkeys(row["store"] for row in summary["warm"]))
    for store in stores:
        for stage, what in STAGES.items() if summary["embedded"] else [("recall", STAGES["recall"])]:
            yield _quantiles(f"Warm, {store}: {what}, ms [95 % interval]", _over(summary["warm"], store), stage)
    for store in stores if summary["open"] else ():
        title = f"Open loop, {store}, {summary['rate']:g} per second: ms from the intended start"
        yield _quantiles(title, _over(summary["open"], store), "turn" if summary["embedded"] else "recall")
    for store in stores:
        yield _stages(store, _over(summary["warm"], store))
    names = ("import", "open", "recall")
    yield Part(
        "Cold: first turn of a fresh process, p50 (files may be cached), ms",
        ("arm", "memories", "n", "import lancedb", "open table", "first recall"),
        [
            [
                row["arm"],
                row["memories"],
                _spent(row, "recall")["n"],
                *(_interval(row["stages"][name]["p50"]) for name in names),
            ]
            for row in summary["cold"]
            if row["stages"]
        ],
    )
    for store in stores:
        ratios = _over(summary["ratios"], store)
        yield Part(
            f"{store}: recalls relative to {ratios[0]['baseline'] if ratios else ''}, "
            "median over ABBA blocks of two turns",
            ("arm", "memories", "blocks", "ratio"),
            [
                [row["candidate"], row["memories"], row["blocks"], _interval(row["ratio"], "{:.2f}".format)]
                for row in ratios
            ],
        )


def _over(turns: Sequence[Mapping[str, Any]], store: str) -> list[Mapping[str, Any]]:
    return [row for row in turns if row["store"] == store]


def _quantiles(title: str, turns: Sequence[Mapping[str, Any]], stage: str) -> Part:
    passed = sum(row["passed_over"] for row in turns)
    rows = [
        [row["arm"], row["memories"], spent["n"], *(_interval(spent[name]) for name in ("p50", "p95", "p99"))]
        for row in turns
        if (spent := _spent(row, stage))["n"] or stage != "embed"
    ]
    skipped = f"Not counted: {passed} turns that an arm skipped as trivial, without a search."
    return Part(title, ("arm", "size", "n", "p50", "p95", "p99"), rows, notes=[skipped] * bool(passed))


def _stages(store: str, turns: Sequence[Mapping[str, Any]]) -> Part:
    sizes = list(dict.fromkeys(row["memories"] for row in turns))
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for row in turns:
        least = SHOWN_FROM * (_spent(row, "turn" if "turn" in row["stages"] else "recall")["mean"] or 0.0)
        for stage, spent in row["stages"].items():
            if spent["p50"] and (spent["mean"] >= least or (row["arm"], stage) in cells):
                cells.setdefault((row["arm"], stage), {})[row["memories"]] = spent["p50"]["value"]
    lead = f"By stage, {store}: p50, milliseconds (without stages below {SHOWN_FROM:.0%} of a turn)"
    rows = [[arm, stage, *(p50.get(size) for size in sizes)] for (arm, stage), p50 in cells.items()]
    return Part(lead, ("arm", "stage", *(f"{size:,}" for size in sizes)), rows, 2)


def _stores(summary: Mapping[str, Any]) -> Iterator[Part]:
    sizes = summary["sizes"]
    agree = [size["agree"] for size in sizes if size["agree"]]
    same, of = sum(row["turns"] for row in agree), sum(row["of"] for row in agree)
    both = (
        f"Both chose the same memories in {same} of {of} turns. The exact store scores many turns ahead in one matrix "
        "product. shared: all arms use one search, as in a replay."
    )
    yield Part(
        "A recall of all arms: mean ms, and speedup of the exact store over lancedb",
        ("memories", "lancedb", "exact", "speedup", "exact, shared", "speedup"),
        [
            [
                *(row["memories"], row["lancedb_ms"], row["exact_ms"], f"{row['times']:.1f}"),
                *(row["shared_ms"], f"{row['times_shared']:.1f}"),
            ]
            for row in summary["stores"]
        ],
        notes=[both],
    )
    before = (
        "before opening: Python and the lab's list of rows. builder: the process that built the stores and ran the "
        "warm turns, with the embedder."
    )
    approximate = [
        f"{size['memories']:,} memories: vector search is approximate; it returned {size['index_recall']:.1%} "
        "of the first 12 of exact search."
        for size in sizes
        if size["index_recall"] is not None
    ]
    yield Part(
        "Memory of the process (RSS) and table on disk, MB",
        ("memories", "before opening", "first turn", "warm", "builder", "on disk"),
        [
            [
                size["memories"],
                *(_mega(size["process"][name]) for name in ("rows", "first", "warm")),
                _mega(size["resident"]),
                _mega(size["stores"].get("lancedb", {}).get("bytes")),
            ]
            for size in sizes
        ],
        notes=[before, *approximate],
    )


def _growth(summary: Mapping[str, Any]) -> Iterator[Part]:
    waiting = summary["waiting"]
    compared = (
        "recall, compacted: before and after compaction. compact: one call for all waiting rows. changed: turns of all "
        "arms that chose other memories while rows waited, because those are scored with other statistics than indexed "
        "rows."
    )
    yield Part(
        f"Rows waiting for compaction, over {waiting[0]['memories'] if waiting else 0} compacted ones: p50, ms",
        ("arm", "waiting", "recall", "compacted", "append", "compact", "changed"),
        [
            [
                row["arm"],
                row["waiting"],
                *(_value(row[what]["p50"]) for what in ("recall", "compacted", "append")),
                row["compact_ms"],
                f"{row['changed']['turns']}/{row['changed']['of']}",
            ]
            for row in waiting
        ],
        notes=[compared],
    )
    cheapest = (
        f"append (with compaction), recall and both are means. Lowest total over all arms: every "
        f"{summary['cheapest_cadence']}. Only with 1 are answers independent of when rows were added."
    )
    yield Part(
        "Compaction cadence in rows: one append and one recall, milliseconds",
        ("arm", "every", "append", "p95", "recall", "p95", "both"),
        [
            [
                *(row["arm"], row["compact_every"]),
                *(row["append"]["mean"], _value(row["append"]["p95"])),
                *(row["recall"]["mean"], _value(row["recall"]["p95"])),
                row["turn_mean"],
            ]
            for row in summary["cadence"]
        ],
        notes=[cheapest],
    )


def _spent(row: Mapping[str, Any], stage: str) -> Mapping[str, Any]:
    empty = {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    spent: Mapping[str, Any] = row["stages"].get(stage, empty)
    return spent


def _value(quantile: Mapping[str, float] | None) -> float | str:
    return "n too small" if quantile is None else quantile["value"]


def _interval(quantile: Mapping[str, float] | None, shown: Callable[[float], str] = milliseconds) -> str:
    if quantile is None:
        return "n too small"
    value, low, high = (shown(quantile[name]) for name in ("value", "low", "high"))
    return f"{value} [{low} {high}]"


def _mega(value: int | None) -> str | None:
    return None if value is None else f"{value / MEGA:.0f}"
