"""From samples to what is told: quantiles with intervals, ratios of arms, the cost of a cadence. Milliseconds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from lab.latency.bench import Sample
from lab.latency.quantiles import LEVEL, NS_PER_MS, QUANTILES, least_n, paired_ratio, spent_of
from lab.latency.request import NEVER, LatencyRequest
from lab.latency.run import Folder
from lab.latency.schedule import BLOCK
from lab.latency.turns import TOTAL
from lab.latency.work import Measured

WORDS = (
    "Times are milliseconds of this machine. A quantile is the sample of that rank, with a distribution-free "
    f"{LEVEL:.0%} interval between two order statistics that takes turns as independent; null: n too small. "
    "Embedding the prompt is not in them."
)


def summarise(asked: LatencyRequest, folder: Folder, cells: Sequence[Measured]) -> dict[str, Any]:
    """Everything that was measured, as plain values: what ``latency.json`` holds."""
    samples = [one for cell in cells for one in cell.samples]
    sizes = [cell for cell in cells if "real" in cell.about]
    turns = [turn for turn in samples if turn.part in ("warm", "open", "cold")]
    growth = [cell for cell in cells if "waiting" in cell.about]
    sweep = [cell for cell in cells if "compact_every" in cell.about]
    return {
        "kind": "lab.latency.summary",
        "unit": "ms",
        "about": WORDS,
        "least_n": {name: least_n(share) for name, share in QUANTILES.items()},
        **{part: _stages([turn for turn in turns if turn.part == part]) for part in ("warm", "open", "cold")},
        "ratios": [ratio for cell in sizes for ratio in _ratios(cell)],
        "stores": [one for cell in sizes if (one := _stores(cell))],
        "sizes": [_size(cell) for cell in sizes],
        "waiting": [_waiting(cell, arm) for cell in growth for arm in _arms(cell.samples)],
        "cadence": [_cadence(cell, arm) for cell in sweep for arm in _arms(cell.samples)],
        "cheapest_cadence": _cheapest(sweep),
        "left_out": left_out(sizes, growth, sweep),
        "rate": asked.rate,
        "cells": [cell.about for cell in cells],
        "manifest": folder.manifest,
    }


def left_out(sizes: Sequence[Measured], growth: Sequence[Measured], sweep: Sequence[Measured]) -> str | None:
    """Return, in a sentence, which arms are missing in which parts; None where no arm is missing.

    Cold turns open the shared table again, rows are appended to it, and one view of it is shared. An arm that does not
    search it has no part in these.
    """
    alone = list(dict.fromkeys(arm for cell in sizes for arm in cell.about["alone"]))
    parts = {
        "cold turns": any("cold" in cell.about for cell in sizes),
        "turns over one view": any(one.part == "shared" for cell in sizes for one in cell.samples),
        "waiting rows": bool(growth),
        "compaction cadences": bool(sweep),
    }
    measured = [name for name, there in parts.items() if there]
    if not alone or not measured:
        return None
    return (
        f"Not measured with {', '.join(measured)}: {', '.join(alone)}, "
        f"which {'does' if len(alone) == 1 else 'do'} not search the table that arms share."
    )


def about(values: Iterable[int]) -> dict[str, Any]:
    """Count, mean and quantiles of nanoseconds, in milliseconds."""
    return spent_of([value / NS_PER_MS for value in values]).as_json()


def _stages(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """Every stage of every arm, store and size. Turns that an arm passed over are counted and not timed."""
    found = []
    for (memories, store, arm), own in _by(samples, "memories", "store", "arm"):
        timed = [one for one in own if not one.passed_over]
        found.append(
            {
                "memories": memories,
                "store": store,
                "arm": arm,
                "passed_over": len({one.turn for one in own if one.passed_over}),
                "stages": {stage: about(one.ns for one in some) for (stage,), some in _by(timed, "stage")},
            }
        )
    return found


def _blocks(samples: Sequence[Sample], store: str, arm: str) -> dict[int, list[float]]:
    """Nanoseconds of whole turns by block; a block in which a turn was passed over is left out."""
    blocks: dict[int, list[float]] = {}
    out: set[int] = set()
    for one in samples:
        if (one.part, one.store, one.arm, one.stage) == ("warm", store, arm, TOTAL):
            blocks.setdefault(one.turn // BLOCK, []).append(one.ns)
            if one.passed_over:
                out.add(one.turn // BLOCK)
    return {block: values for block, values in blocks.items() if block not in out and len(values) == BLOCK}


def _ratios(cell: Measured) -> list[dict[str, Any]]:
    """Every arm against the first, over the same store, by blocks."""
    warm = [one for one in cell.samples if one.part == "warm"]
    found = []
    for (store,), own in _by(warm, "store"):
        baseline, *others = _arms(own)
        first = _blocks(own, store, baseline)
        for arm in others:
            ratio, blocks = paired_ratio(_blocks(own, store, arm), first)
            found.append(
                {
                    "memories": cell.about["memories"],
                    "store": store,
                    "candidate": arm,
                    "baseline": baseline,
                    "ratio": ratio._asdict() if ratio else None,
                    "blocks": blocks,
                }
            )
    return found


def _stores(cell: Measured) -> dict[str, Any] | None:
    """How many times faster the exact store answers a turn of all arms than LanceDB, by the mean of all turns.

    The exact store scores turns ahead in one product, which is slow for the arm that happens to come first and quick
    for all others: so arms are not told apart here, and a median would flatter it. ``shared``: all arms over one view,
    as in a replay.
    """
    spent: dict[str, list[int]] = {}
    for one in cell.samples:
        if one.part in ("warm", "shared") and one.stage == TOTAL:
            spent.setdefault("shared" if one.part == "shared" else one.store, []).append(one.ns)
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
    """Memory and disk of a size. ``process`` is a fresh process that opened the table, asked once, and asked on."""
    cold = [one for one in cell.about.get("cold", ()) if one["rows"] is not None]
    opened = {
        name: sorted(one[name] for one in cold)[len(cold) // 2] if cold else None for name in ("rows", "first", "warm")
    }
    return {**{name: cell.about[name] for name in ("memories", "real", "stores", "resident", "agree")}} | {
        "process": opened,
        "index_recall": cell.about.get("index_recall"),
        "load": cell.about["load"],
    }


def _waiting(cell: Measured, arm: str) -> dict[str, Any]:
    """One arm over a table with rows waiting, and once it is compacted."""
    appended = [one.ns for one in cell.samples if one.part == "append"]
    spent = cell.about["compact_ns"]
    return {
        "memories": cell.about["memories"],
        "waiting": cell.about["waiting"],
        "arm": arm,
        "recall": about(_whole(cell.samples, "waiting", arm)),
        "compacted": about(_whole(cell.samples, "compacted", arm)),
        "append": about(appended[-min(100, len(appended)) :]),
        "compact_ms": None if spent is None else spent / NS_PER_MS,
        "changed": cell.about["changed"],
        "bytes": cell.about["bytes"],
    }


def _cadence(cell: Measured, arm: str) -> dict[str, Any]:
    """What one append and one recall of an arm cost under a cadence."""
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
    return [one.ns for one in cell.samples if one.part == "append"], _whole(cell.samples, "cadence", arm)


def _cheapest(sweep: Sequence[Measured]) -> int | str | None:
    """The cadence under which one append and one recall cost least, arms counted alike."""
    if not sweep:
        return None
    cost = {
        cell.about["compact_every"] or NEVER: sum(_cadence(cell, arm)["turn_mean"] for arm in _arms(cell.samples))
        for cell in sweep
    }
    best: int | str = min(cost, key=lambda cadence: cost[cadence])
    return best


def _whole(samples: Sequence[Sample], part: str, arm: str) -> list[int]:
    return [one.ns for one in samples if (one.part, one.arm, one.stage) == (part, arm, TOTAL) and not one.passed_over]


def _arms(samples: Sequence[Sample]) -> list[str]:
    return list(dict.fromkeys(one.arm for one in sorted(samples, key=_asked_first) if one.arm))


def _asked_first(one: Sample) -> tuple[int, int]:
    """In the first turn arms stand in the order in which they were given."""
    return one.turn, one.place


def _by(samples: Sequence[Sample], *names: str) -> list[tuple[tuple[Any, ...], list[Sample]]]:
    """Samples grouped by fields, groups in the order of their first sample."""
    groups: dict[tuple[Any, ...], list[Sample]] = {}
    for one in samples:
        groups.setdefault(tuple(getattr(one, name) for name in names), []).append(one)
    return list(groups.items())
