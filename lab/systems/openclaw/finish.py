"""Build the recall of arms that only select: items, injected block, receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab.recordings.model import GLOBAL
from lab.retrieval.contract import Row
from lab.retrieval.faults import HARMLESS
from lab.retrieval.retrievers import QueryContext
from lab.retrieval.stage_timer import SEARCH, StageTimer
from lab.systems.contract import Ask, Item, Recall, Signals, Status
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.block import wrap
from lab.systems.openclaw.recall.receipt import Final, Lane, LaneHit, lifecycle_receipt
from lab.systems.openclaw.select.outcome import Picked, Selection

RECEIPTS = ReceiptSettings()
_new = tuple.__new__


def finish(
    mode: str,
    ask: Ask,
    selection: Selection,
    lane_summaries: Callable[[], tuple[Lane | Sequence[LaneHit], Lane | Sequence[LaneHit]]],
    candidates: QueryContext,
    max_items: int,
    timer: StageTimer,
    *,
    explain_all: bool = False,
) -> Recall:
    """Build the recall of a selection, of which the first ``max_items`` are injected.

    ``lane_summaries`` returns what the receipt lists of both lanes. ``explain_all``: the receipt names the decision of
    every injected item.
    """
    rows = [candidates.by_id[pick.candidate.id] for pick in selection.picked]
    items = tuple([item_of(pick, row, pick.decision) for pick, row in zip(selection.picked, rows, strict=True)])
    chosen = rows[:max_items]
    status: Status = "degraded" if ask.faults - HARMLESS else "ok"
    if ask.items_only:
        return Recall(items, len(chosen), timings=timer.timings, status=status)
    context = timer.stage("wrap", lambda: wrap([(row.category, row.importance_label, row.text) for row in chosen]))
    receipt = timer.stage(
        "receipt",
        lambda: _receipt(mode, ask, selection, lane_summaries(), candidates, chosen, explain_all=explain_all),
    )
    timer.timings.setdefault(SEARCH, 0)
    return Recall(items, len(chosen), context, receipt, timer.timings, status, evicted=0)


def _receipt(
    mode: str,
    ask: Ask,
    selection: Selection,
    lanes: tuple[Lane | Sequence[LaneHit], Lane | Sequence[LaneHit]],
    candidates: QueryContext,
    chosen: Sequence[Row],
    *,
    explain_all: bool,
) -> dict[str, Any]:
    scope = ask.scope or GLOBAL
    decisions = {pick.candidate.id: pick.decision for pick in selection.picked[: len(chosen)]}
    return lifecycle_receipt(
        RECEIPTS,
        scope=scope,
        scope_mode=GLOBAL if scope == GLOBAL else "inferred",
        mode=mode,
        quota=selection.quota,
        tier_counts=selection.tier_counts,
        fts=lanes[0],
        vec=lanes[1],
        final=[Final(row.id, row.importance_label, row.scope) for row in chosen],
        rejected=[*selection.rejected, *([candidates.no_vector] if candidates.no_vector else ())],
        injected=len(chosen),
        parts={"decisions": decisions} if explain_all else None,
        explain_all=explain_all,
    )


def item_of(pick: Picked, row: Row, decision: str) -> Item:
    """Return a selected candidate as an item of a recall."""
    candidate = pick.candidate
    # Does what Signals(…) and Item(…) do at half the cost.
    signals = _new(Signals, (row.id, row.importance_label, row.scope, candidate.fts_rank, candidate.vec_rank, decision))
    return _new(Item, (row.key, row.text, (row.key,), candidate.score, signals, pick.tier))
