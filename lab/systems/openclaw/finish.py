"""The last steps that arms of selection alone share: rows to items, the injected block, the receipt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lab.recordings.model import GLOBAL
from lab.retrieval.booking import SEARCH, Booking
from lab.retrieval.faults import HARMLESS
from lab.retrieval.query_context import Found
from lab.retrieval.row import Row
from lab.systems.contract import Ask, Item, Recall, Signals, Status
from lab.systems.openclaw.config.settings import ReceiptSettings
from lab.systems.openclaw.recall.receipt import Final, Lane, lifecycle_receipt
from lab.systems.openclaw.recall.receipt import Found as RawHit
from lab.systems.openclaw.recall.wrap import wrap
from lab.systems.openclaw.select.outcome import Picked, Selection

RECEIPTS = ReceiptSettings()
_new = tuple.__new__


def finish(
    mode: str,
    ask: Ask,
    selection: Selection,
    told: Callable[[], tuple[Lane | Sequence[RawHit], Lane | Sequence[RawHit]]],
    found: Found,
    max_items: int,
    booking: Booking,
) -> Recall:
    """Build the recall of a selection, of which the first ``max_items`` are injected; ``told`` says what was found."""
    rows = [found.by_id[one.candidate.id] for one in selection.picked]
    items = tuple([item_of(one, row, one.decision) for one, row in zip(selection.picked, rows, strict=True)])
    chosen = rows[:max_items]
    status: Status = "degraded" if ask.faults - HARMLESS else "ok"
    if ask.items_only:
        return Recall(items, len(chosen), timings=booking.timings, status=status)
    context = booking.stage("wrap", lambda: wrap([(row.category, row.importance_label, row.text) for row in chosen]))
    receipt = booking.stage("receipt", lambda: _receipt(mode, ask, selection, told(), found, chosen))
    booking.timings.setdefault(SEARCH, 0)
    return Recall(items, len(chosen), context, receipt, booking.timings, status, evicted=0)


def _receipt(
    mode: str,
    ask: Ask,
    selection: Selection,
    lanes: tuple[Lane | Sequence[RawHit], Lane | Sequence[RawHit]],
    found: Found,
    chosen: Sequence[Row],
) -> dict[str, Any]:
    scope = ask.scope or GLOBAL
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
        rejected=[*selection.rejected, *([found.no_vector] if found.no_vector else ())],
        injected=len(chosen),
    )


def item_of(one: Picked, row: Row, decision: str) -> Item:
    """A selected candidate as an item of a recall."""
    found = one.candidate
    # What Signals(…) and Item(…) do, at half their cost.
    signals = _new(Signals, (row.id, row.importance_label, row.scope, found.fts_rank, found.vec_rank, decision))
    return _new(Item, (row.key, row.text, (row.key,), found.score, signals, one.tier))
