"""What ``lab latency`` prints: one table a question, for 80 columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab.cli.output import emit, emit_folded, emit_table
from lab.formatting import milliseconds

MEGA = 1e6
# A stage whose share of the turn is less is left to latency.json.
SHOWN_FROM = 0.01


def emit_latency(found: Mapping[str, Any]) -> None:
    """Print a summary of :func:`lab.latency.summary.summarise`."""
    for size in found["sizes"]:
        made = size["memories"] - size["real"]
        if made:
            emit_folded(
                f"{size['memories']} memories: {size['real']} of the recordings, {made} resampled from them "
                "(own id, half of the words exchanged for others of the recordings, vector with noise)."
            )
    stores = list(dict.fromkeys(one["store"] for one in found["warm"]))
    for store in stores:
        _tell_quantiles(f"Warm, {store}: milliseconds a turn [95 % interval], by memories", _over(found["warm"], store))
    for store in stores if found["open"] else ():
        title = f"Open loop, {store}, {found['rate']:g} a second: ms from the intended start"
        _tell_quantiles(title, _over(found["open"], store))
    for store in stores:
        _tell_stages(store, _over(found["warm"], store))
    _tell_cold(found["cold"])
    for store in stores:
        _tell_ratios(store, _over(found["ratios"], store))
    _tell_stores(found)
    _tell_memory(found["sizes"])
    _tell_waiting(found["waiting"])
    _tell_cadence(found)
    if found["left_out"]:
        emit_folded(found["left_out"])
    emit_folded(found["about"])


def _over(turns: Sequence[Mapping[str, Any]], store: str) -> list[Mapping[str, Any]]:
    return [one for one in turns if one["store"] == store]


def _tell_quantiles(title: str, turns: Sequence[Mapping[str, Any]]) -> None:
    emit()
    emit(title)
    emit_table(
        ["arm", "size", "n", "p50", "p95", "p99"],
        [
            [
                one["arm"],
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


def _tell_stages(store: str, turns: Sequence[Mapping[str, Any]]) -> None:
    sizes = list(dict.fromkeys(one["memories"] for one in turns))
    cells: dict[tuple[str, str], dict[int, float]] = {}
    for one in turns:
        least = SHOWN_FROM * (_whole(one)["mean"] or 0.0)
        for stage, spent in one["stages"].items():
            if spent["p50"] and (spent["mean"] >= least or (one["arm"], stage) in cells):
                cells.setdefault((one["arm"], stage), {})[one["memories"]] = spent["p50"]["value"]
    if not cells:
        return
    emit()
    emit(f"By stage, {store}: p50, milliseconds (stages below {SHOWN_FROM:.0%} of a turn left out)")
    rows = [[arm, stage, *(values.get(size) for size in sizes)] for (arm, stage), values in cells.items()]
    emit_table(["arm", "stage", *(f"{size:,}" for size in sizes)], rows, left=2)


def _tell_cold(turns: Sequence[Mapping[str, Any]]) -> None:
    if not turns:
        return
    emit()
    emit("Cold: first turn of a fresh process, p50 (files may be in the system's cache)")
    names = ("import", "open", "total")
    emit_table(
        ["arm", "memories", "n", "import lancedb", "open table", "first turn"],
        [
            [one["arm"], one["memories"], _whole(one)["n"], *(_interval(one["stages"][name]["p50"]) for name in names)]
            for one in turns
            if one["stages"]
        ],
    )


def _tell_ratios(store: str, ratios: Sequence[Mapping[str, Any]]) -> None:
    if not ratios:
        return
    emit()
    emit(f"{store}: times as long as {ratios[0]['baseline']}, median over ABBA blocks of two turns")
    emit_table(
        ["arm", "memories", "blocks", "ratio"],
        [
            [one["candidate"], one["memories"], one["blocks"], _interval(one["ratio"], "{:.2f}".format)]
            for one in ratios
        ],
    )


def _tell_stores(found: Mapping[str, Any]) -> None:
    if not found["stores"]:
        return
    emit()
    emit("A turn of all arms, mean milliseconds; how many times faster the exact store is")
    emit_table(
        ["memories", "lancedb", "exact", "times", "exact, one view", "times"],
        [
            [
                one["memories"],
                one["lancedb_ms"],
                one["exact_ms"],
                f"{one['times']:.1f}",
                one["shared_ms"],
                f"{one['times_shared']:.1f}",
            ]
            for one in found["stores"]
        ],
    )
    agree = [size["agree"] for size in found["sizes"] if size["agree"]]
    same, of = sum(one["turns"] for one in agree), sum(one["of"] for one in agree)
    emit_folded(
        f"Both chose the same memories in {same} of {of} turns. The exact store scores turns ahead, many in one "
        "product; over one view all arms share what was found, as in a replay."
    )


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
    emit("Compacted after every so many rows: one append and one recall, milliseconds")
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
        f"Append (compaction in it), recall and both are means. Least for all arms together: every "
        f"{found['cheapest_cadence']}. Only with 1 do answers not depend on when rows came."
    )


def _whole(one: Mapping[str, Any]) -> Mapping[str, Any]:
    empty = {"n": 0, "mean": None, "p50": None, "p95": None, "p99": None}
    found: Mapping[str, Any] = one["stages"].get("total", empty)
    return found


def _value(quantile: Mapping[str, float] | None) -> float | str:
    return "n too small" if quantile is None else quantile["value"]


def _interval(quantile: Mapping[str, float] | None, shown: Callable[[float], str] = milliseconds) -> str:
    if quantile is None:
        return "n too small"
    value, low, high = (shown(quantile[name]) for name in ("value", "low", "high"))
    return f"{value} [{low} {high}]"


def _mega(value: int | None) -> str | None:
    return None if value is None else f"{value / MEGA:.0f}"
