"""The last steps that arms of selection alone share: rows to items, the injected block, the receipt."""

from __future__ import annotations

import time
from collections.abc import Sequence

from lab.retrieval.row import Row
from lab.systems.contract import Item, Recall, Request
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Final, Found, Lane, lifecycle_receipt
from lab.systems.openclaw.recall.scope import GLOBAL
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall.wrap import wrap
from lab.systems.openclaw.select.outcome import Picked, Selection

RECEIPTS = ReceiptSettings()


def finish(
    mode: str,
    request: Request,
    selection: Selection,
    lanes: tuple[Sequence[Found] | Lane, Sequence[Found] | Lane],
    memories: Memories,
    max_items: int,
    timings: dict[str, int],
) -> Recall:
    """Build the recall of a selection, of which the first ``max_items`` are injected."""
    started = time.perf_counter_ns()
    injected = selection.picked[:max_items]
    chosen = [memories.by_id[one.candidate.id] for one in injected]
    context = wrap([(row.category, row.importance_label, row.text) for row in chosen])
    timings["wrap"] = time.perf_counter_ns() - started
    scope = request.scope or GLOBAL
    receipt = lifecycle_receipt(
        RECEIPTS,
        scope=scope,
        scope_mode=GLOBAL if scope == GLOBAL else "inferred",
        mode=mode,
        quota=selection.quota,
        tier_counts=selection.tier_counts,
        fts=lanes[0],
        vec=lanes[1],
        final=[Final(row.id, row.importance_label, row.scope) for row in chosen],
        rejected=[*selection.rejected, *([memories.no_vector] if memories.no_vector else ())],
        injected=len(injected),
    )
    timings["receipt"] = time.perf_counter_ns() - started - timings["wrap"]
    items = tuple(item_of(one, memories.by_id[one.candidate.id], one.decision) for one in selection.picked)
    return Recall(items, len(injected), context, receipt, timings)


def item_of(one: Picked, row: Row, decision: str) -> Item:
    """A selected candidate as an item of a recall."""
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
        decision,
    )
