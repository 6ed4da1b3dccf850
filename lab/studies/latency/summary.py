"""The summary of a measurement: quantiles with intervals, ratios of arms, the cost of a cadence, in milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from lab.measures.latency import LEVEL, NS_PER_MS, QUANTILES, least_n, paired_ratio, spent_of
from lab.studies.latency.bench import RECALL, Sample
from lab.studies.latency.request import NEVER, LatencyRequest
from lab.studies.latency.run import Folder
from lab.studies.latency.work import BLOCK, Measured

WORDS = (
    "Times are milliseconds on this machine. A quantile is the sample of that rank, with a distribution-free "
    f"{LEVEL:.0%} interval between two order statistics that assumes independent turns; null: n too small. "
    "recall is a turn without the embedding of its prompt."
)


def summarise(asked: LatencyRequest, folder: Folder, cells: Sequence[Measured]) -> dict[str, Any]:
    """Return all results as plain values, the content of ``latency.json``."""
    samples = [sample for cell in cells for sample in cell.samples]
    sizes = [cell for cell in cells if "real" in cell.about]
    turns = [turn for turn in samples if turn.part in ("warm", "open", "cold")]
    growth = [cell for cell in cells if "waiting" in cell.about]
    sweep = [cell for cell in cells if "compact_every" in cell.about]
    return {
        "kind": "lab.studies.latency.summary",
        "unit": "ms",
        "about": WORDS,
        "least_n": {name: least_n(share) for name, share in QUANTILES.items()},
        **{part: _stages([turn for turn in turns if turn.part == part]) for part in ("warm", "open", "cold")},
        "ratios": [ratio for cell in sizes for ratio in _ratios(cell)],
        "stores": [stores for cell in sizes if (stores := _stores(cell))],
        "sizes": [_size(cell) for cell in sizes],
        "waiting": [_waiting(cell, arm) for cell in growth for arm in _arms(cell.samples)],
        "cadence": [_cadence(cell, arm) for cell in sweep for arm in _arms(cell.samples)],
        "cheapest_cadence": _cheapest(sweep),
        "left_out": left_out(sizes, growth, sweep),
        "rate": asked.rate,
        "embedded": folder.manifest["resolved"]["embed"],
        "cells": [cell.about for cell in cells],
        "manifest": folder.manifest,
    }


def left_out(sizes: Sequence[Measured], growth: Sequence[Measured], sweep: Sequence[Measured]) -> str | None:
    """Return a sentence on the arms that are missing from some parts; None if none is.

    Cold turns reopen the shared table, rows are appended to it, and one view of it is shared; an arm that does not
    search that table takes no part in these.
    """
    alone = list(dict.fromkeys(arm for cell in sizes for arm in cell.about["alone"]))
    parts = {
        "cold turns": any("cold" in cell.about for cell in sizes),
        "turns over one view": any(sample.part == "shared" for cell in sizes for sample in cell.samples),
        "waiting rows": bool(growth),
        "compaction cadences": bool(sweep),
    }
    measured = [name for name, is_measured in parts.items() if is_measured]
    if not alone or not measured:
        return None
    return (
        f"Not measured with {', '.join(measured)}: {', '.join(alone)}, "
        f"which {'does' if len(alone) == 1 else 'do'} not search the shared table."
    )


def about(values: Iterable[int]) -> dict[str, Any]:
    """Return count, mean and quantiles, in milliseconds, of values in nanoseconds."""
    return spent_of([value / NS_PER_MS for value in values]).as_json()


def _stages(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Return every stage of every arm, store and size; skipped turns are counted but not timed."""
    rows = []
    for (memories, store, arm), group in _by(samples, "memories", "store", "arm"):
        timed = [sample for sample in group if not sample.passed_over]
        rows.append(
            {
                "memories": memories,
                "store": store,
                "arm": arm,
                "passed_over": len({sample.turn for sample in group if sample.passed_over}),
                "stages": {
                    stage: about(sample.ns for sample in of_stage) for (stage,), of_stage in _by(timed, "stage")
                },
            }
        )
    return rows


def _blocks(samples: Sequence[Sample], store: str, arm: str) -> dict[int, list[float]]:
    """Return nanoseconds of recalls by block, without blocks in which a turn was skipped."""
    blocks: dict[int, list[float]] = {}
    skipped: set[int] = set()
    for sample in samples:
        if (sample.part, sample.store, sample.arm, sample.stage) == ("warm", store, arm, RECALL):
            blocks.setdefault(sample.turn // BLOCK, []).append(sample.ns)
            if sample.passed_over:
                skipped.add(sample.turn // BLOCK)
    return {block: values for block, values in blocks.items() if block not in skipped and len(values) == BLOCK}


def _ratios(cell: Measured) -> list[dict[str, Any]]:
    """Return the ratio of every arm to the first on the same store, by blocks."""
    warm = [sample for sample in cell.samples if sample.part == "warm"]
    ratios = []
    for (store,), group in _by(warm, "store"):
        baseline, *others = _arms(group)
        first = _blocks(group, store, baseline)
        for arm in others:
            ratio, blocks = paired_ratio(_blocks(group, store, arm), first)
            ratios.append(
                {
                    "memories": cell.about["memories"],
                    "store": store,
                    "candidate": arm,
                    "baseline": baseline,
                    "ratio": ratio._asdict() if ratio else None,
                    "blocks": blocks,
                }
            )
    return ratios


def _stores(cell: Measured) -> dict[str, Any] | None:
    """Return how many times faster the exact store answers a turn of all arms than LanceDB, by the mean over turns.

    The exact store scores many turns in one product, which is slow for the first arm and fast for the others, so arms
    are summed, and a mean is used because a median would favour it. ``shared`` is all arms on one view, as in a replay.
    """
    spent: dict[str, list[int]] = {}
    for sample in cell.samples:
        if sample.part in ("warm", "shared") and sample.stage == RECALL:
            spent.setdefault("shared" if sample.part == "shared" else sample.store, []).append(sample.ns)
    if not {"exact", "lancedb"} <= spent.keys():
        return None
    turns = len(spent["shared"])
    mean = {name: math.fsum(values) / turns / NS_PER_MS for name, values in spent.items()}
    return {
        "memories": cell.about["memories"],
        "arms": len(_arms(cell.samples)),
        "turns": turns,
        **{f"{name}_ms": value for name, value in mean.items()},
        "times": mean["lancedb"] / mean["exact"],
        "times_shared": mean["lancedb"] / mean["shared"],
    }


def _size(cell: Measured) -> dict[str, Any]:
    """Return memory and disk use of a size; ``process`` is a fresh process with its rows, first turn, and warm."""
    cold = [process for process in cell.about.get("cold", ()) if process["rows"] is not None]
    opened = {
        name: sorted(process[name] for process in cold)[len(cold) // 2] if cold else None
        for name in ("rows", "first", "warm")
    }
    return {**{name: cell.about[name] for name in ("memories", "real", "stores", "resident", "agree")}} | {
        "process": opened,
        "index_recall": cell.about.get("index_recall"),
        "load": cell.about["load"],
    }


def _waiting(cell: Measured, arm: str) -> dict[str, Any]:
    """Return the times of one arm on a table with uncompacted rows, and after compaction."""
    appended = [sample.ns for sample in cell.samples if sample.part == "append"]
    spent = cell.about["compact_ns"]
    return {
        "memories": cell.about["memories"],
        "waiting": cell.about["waiting"],
        "arm": arm,
        "recall": about(_turn_ns(cell.samples, "waiting", arm)),
        "compacted": about(_turn_ns(cell.samples, "compacted", arm)),
        "append": about(appended[-min(100, len(appended)) :]),
        "compact_ms": None if spent is None else spent / NS_PER_MS,
        "changed": cell.about["changed"],
        "bytes": cell.about["bytes"],
    }


def _cadence(cell: Measured, arm: str) -> dict[str, Any]:
    """Return the cost of one append and one recall of an arm under a cadence."""
    append, recall = (about(values) for values in _costs(cell, arm))
    return {
        "memories": cell.about["memories"],
        "compact_every": cell.about["compact_every"] or NEVER,
        "arm": arm,
        "append": append,
        "recall": recall,
        "turn_mean": (append["mean"] or 0.0) + (recall["mean"] or 0.0),
        "bytes": cell.about["bytes"],
    }


def _costs(cell: Measured, arm: str) -> tuple[list[int], list[int]]:
    return [sample.ns for sample in cell.samples if sample.part == "append"], _turn_ns(cell.samples, "cadence", arm)


def _cheapest(sweep: Sequence[Measured]) -> int | str | None:
    """Return the cadence with the lowest cost of one append and one recall, summed over arms."""
    if not sweep:
        return None
    cost = {
        cell.about["compact_every"] or NEVER: sum(_cadence(cell, arm)["turn_mean"] for arm in _arms(cell.samples))
        for cell in sweep
    }
    best: int | str = min(cost, key=lambda cadence: cost[cadence])
    return best


def _turn_ns(samples: Sequence[Sample], part: str, arm: str) -> list[int]:
    return [
        sample.ns
        for sample in samples
        if (sample.part, sample.arm, sample.stage) == (part, arm, RECALL) and not sample.passed_over
    ]


def _arms(samples: Sequence[Sample]) -> list[str]:
    return list(dict.fromkeys(sample.arm for sample in sorted(samples, key=_order) if sample.arm))


def _order(sample: Sample) -> tuple[int, int]:
    """Return a sort key: in the first turn, arms are in the order in which they were given."""
    return sample.turn, sample.place


def _by(samples: Sequence[Sample], *names: str) -> list[tuple[tuple[Any, ...], list[Sample]]]:
    """Return samples grouped by fields, groups in the order of their first sample."""
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for sample in samples:
        groups.setdefault(tuple(getattr(sample, name) for name in names), []).append(sample)
    return list(groups.items())
