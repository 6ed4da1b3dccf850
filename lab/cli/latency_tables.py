"""Tables of ``lab study latency``, for 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.base.formatting import milliseconds
from lab.cli.output import emit, emit_folded, emit_table

MEGA = 1e6
# A stage with a smaller share of the turn is shown only in latency.json.
SHOWN_FROM = 0.01


def emit_latency(summary: Mapping[str, Any]) -> None:
    """Print a summary of :func:`lab.studies.latency.summary.summarise`."""
    for size in summary["sizes"]:
        made = size["memories"] - size["real"]
        if made:
            emit_folded(
                f"{size['memories']:,} memories: {size['real']:,} from the recordings, {made} resampled from them "
                "(new id, half of the words replaced by others of the recordings, noise added to the vector)."
            )
    stores = list(dict.fromkeys(row["store"] for row in summary["warm"]))
    for store in stores:
        _emit_quantiles(f"Warm, {store}: milliseconds per turn [95 % interval]", _over(summary["warm"], store))
    for store in stores if summary["open"] else ():
        title = f"Open loop, {store}, {summary['rate']:g} per second: ms from the intended start"
        _emit_quantiles(title, _over(summary["open"], store))
    for store in stores:
        _emit_stages(store, _over(summary["warm"], store))
    _emit_cold(summary["cold"])
    for store in stores:
        _emit_ratios(store, _over(summary["ratios"], store))
    _emit_stores(summary)
    _emit_memory(summary["sizes"])
    _emit_waiting(summary["waiting"])
    _emit_cadence(summary)
    if summary["left_out"]:
        emit_folded(summary["left_out"])
    emit_folded(summary["about"])


def _over(turns: Sequence[Mapping[str, Any]], store: str) -> list[Mapping[str, Any]]:
    return [row for row in turns if row["store"] == store]


def _emit_quantiles(title: str, turns: Sequence[Mapping[str, Any]]) -> None:
    emit()
    emit(title)
    emit_table(
        ["arm", "size", "n", "p50", "p95", "p99"],
        [
            [
                row["arm"],
                row["memories"],
                _total(row)["n"],
                *(_interval(_total(row)[name]) for name in ("p50", "p95", "p99")),
            ]
            for row in turns
        ],
    )
    passed = sum(row["passed_over"] for row in turns)
    if passed:
        emit_folded(f"Not counted: {passed} turns that an arm skipped as trivial, without a search.")


def _emit_stages(store: str, turns: Sequence[Mapping[str, Any]]) -> None:
    sizes = list(dict.fromkeys(row["memories"] for row in turns))
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for row in turns:
        least = SHOWN_FROM * (_total(row)["mean"] or 0.0)
        for stage, spent in row["stages"].items():
            if spent["p50"] and (spent["mean"] >= least or (row["arm"], stage) in cells):
                cells.setdefault((row["arm"], stage), {})[row["memories"]] = spent["p50"]["value"]
    if not cells:
        return
    emit()
    emit(f"By stage, {store}: p50, milliseconds (without stages below {SHOWN_FROM:.0%} of a turn)")
    rows = [[arm, stage, *(p50.get(size) for size in sizes)] for (arm, stage), p50 in cells.items()]
    emit_table(["arm", "stage", *(f"{size:,}" for size in sizes)], rows, left=2)


def _emit_cold(turns: Sequence[Mapping[str, Any]]) -> None:
    if not turns:
        return
    emit()
    emit("Cold: first turn of a fresh process, p50 (files may be cached), ms")
    names = ("import", "open", "total")
    emit_table(
        ["arm", "memories", "n", "import lancedb", "open table", "first turn"],
        [
            [row["arm"], row["memories"], _total(row)["n"], *(_interval(row["stages"][name]["p50"]) for name in names)]
            for row in turns
            if row["stages"]
        ],
    )


def _emit_ratios(store: str, ratios: Sequence[Mapping[str, Any]]) -> None:
    if not ratios:
        return
    emit()
    emit_folded(f"{store}: latency relative to {ratios[0]['baseline']}, median over ABBA blocks of two turns")
    emit_table(
        ["arm", "memories", "blocks", "ratio"],
        [
            [row["candidate"], row["memories"], row["blocks"], _interval(row["ratio"], "{:.2f}".format)]
            for row in ratios
        ],
    )


def _emit_stores(summary: Mapping[str, Any]) -> None:
    if not summary["stores"]:
        return
    emit()
    emit("A turn of all arms: mean ms, and speedup of the exact store over lancedb")
    emit_table(
        ["memories", "lancedb", "exact", "speedup", "exact, shared", "speedup"],
        [
            [
                row["memories"],
                row["lancedb_ms"],
                row["exact_ms"],
                f"{row['times']:.1f}",
                row["shared_ms"],
                f"{row['times_shared']:.1f}",
            ]
            for row in summary["stores"]
        ],
    )
    agree = [size["agree"] for size in summary["sizes"] if size["agree"]]
    same, of = sum(row["turns"] for row in agree), sum(row["of"] for row in agree)
    emit_folded(
        f"Both chose the same memories in {same} of {of} turns. The exact store scores many turns ahead in one matrix "
        "product. shared: all arms use one search, as in a replay."
    )


def _emit_memory(sizes: Sequence[Mapping[str, Any]]) -> None:
    emit()
    emit("Memory of the process (RSS) and table on disk, MB")
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
    emit_table(["memories", "before opening", "first turn", "warm", "builder", "on disk"], rows)
    emit_folded(
        "before opening: Python and the lab's list of rows. builder: the process that built the stores and ran the "
        "warm turns."
    )
    for size in sizes:
        if size["index_recall"] is not None:
            emit_folded(
                f"{size['memories']:,} memories: vector search is approximate; it returned {size['index_recall']:.1%} "
                "of the first 12 of exact search."
            )


def _emit_waiting(waiting: Sequence[Mapping[str, Any]]) -> None:
    if not waiting:
        return
    emit()
    emit_folded(f"Rows waiting for compaction, over {waiting[0]['memories']} compacted ones: p50 per turn, ms")
    emit_table(
        ["arm", "waiting", "turn", "compacted", "append", "compact", "changed"],
        [
            [
                row["arm"],
                row["waiting"],
                _value(row["recall"]["p50"]),
                _value(row["compacted"]["p50"]),
                _value(row["append"]["p50"]),
                row["compact_ms"],
                f"{row['changed']['turns']}/{row['changed']['of']}",
            ]
            for row in waiting
        ],
    )
    emit_folded(
        "turn, compacted: before and after compaction. compact: one call for all waiting rows. changed: turns of all "
        "arms that chose other memories while rows waited, because those are scored with other statistics than indexed "
        "rows."
    )


def _emit_cadence(summary: Mapping[str, Any]) -> None:
    if not summary["cadence"]:
        return
    emit()
    emit("Compaction cadence in rows: one append and one recall, milliseconds")
    emit_table(
        ["arm", "every", "append", "p95", "recall", "p95", "both"],
        [
            [
                row["arm"],
                row["compact_every"],
                row["append"]["mean"],
                _value(row["append"]["p95"]),
                row["recall"]["mean"],
                _value(row["recall"]["p95"]),
                row["turn_mean"],
            ]
            for row in summary["cadence"]
        ],
    )
    emit_folded(
        f"append (with compaction), recall and both are means. Lowest total over all arms: every "
        f"{summary['cheapest_cadence']}. Only with 1 are answers independent of when rows were added."
    )


def _total(row: Mapping[str, Any]) -> Mapping[str, Any]:
    empty = {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    total: Mapping[str, Any] = row["stages"].get("total", empty)
    return total


def _value(quantile: Mapping[str, float] | None) -> float | str:
    return "n too small" if quantile is None else quantile["value"]


def _interval(quantile: Mapping[str, float] | None, shown: Callable[[float], str] = milliseconds) -> str:
    if quantile is None:
        return "n too small"
    value, low, high = (shown(quantile[name]) for name in ("value", "low", "high"))
    return f"{value} [{low} {high}]"


def _mega(value: int | None) -> str | None:
    return None if value is None else f"{value / MEGA:.0f}"
