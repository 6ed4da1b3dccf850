"""The last steps that every selector shares: rows to items, the injected block, the receipt."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lab.engine.memory import Row
from lab.engine.recall.receipt import recall_receipt
from lab.engine.recall.select.outcome import Picked, Selection
from lab.engine.recall.wrap import wrap
from lab.engine.store.contract import Lanes
from lab.systems.contract import Candidates, Item, Recall, Request


def finish(
    mode: str,
    request: Request,
    selection: Selection,
    lanes: Sequence[Lanes],
    candidates: Candidates,
    max_items: int,
    timings: dict[str, int],
) -> Recall:
    """Build the recall of a selection, of which the first ``max_items`` are injected."""
    started = time.perf_counter_ns()
    injected = selection.picked[:max_items]
    rows = candidates.by_id
    slots = [(row.category, row.importance_label, row.text) for row in (rows[one.candidate.id] for one in injected)]
    context = wrap(slots)
    timings["wrap"] = time.perf_counter_ns() - started
    receipt = recall_receipt(
        mode=mode,
        scope=request.scope or "global",
        quota=selection.quota,
        tier_counts=selection.tier_counts,
        lanes=lanes,
        picked=injected,
        rows=rows,
        store_rows=candidates.rows,
        rejected=selection.rejected,
        injected=len(injected),
    )
    timings["receipt"] = time.perf_counter_ns() - started - timings["wrap"]
    return Recall(
        tuple(_item(one, rows[one.candidate.id]) for one in selection.picked), len(injected), context, receipt, timings
    )


def _item(one: Picked, row: Row) -> Item:
    found = one.candidate
    return Item(
        row.key,
        row.id,
        one.tier,
        row.importance_label,
        row.scope,
        found.score,
        found.fts_rank,
        found.vec_rank,
        one.decision,
    )
