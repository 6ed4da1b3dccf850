"""The last step of a turn (E-22): pack the slots and write the receipt, whose own length counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lab.base.utf16 import js_length, js_slice, without_half
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import resolve_label
from lab.systems.openclaw.recall.budget import Packed, Slot
from lab.systems.openclaw.recall.markers import marker
from lab.systems.openclaw.recall.receipt import Final, lifecycle_receipt, prompt_comment
from lab.systems.openclaw.recall.turn import Injected, Turn

MAX_PASSES = 3
Pack = Callable[[list[Slot], str], Packed]


def memory_slot(row: Row, most: int = 0) -> Slot:
    """Return the slot of a memory; with ``most``, cut a longer text to this many UTF-16 units, ellipsis included."""
    label = resolve_label(row.importance_label, row.importance)
    return Slot(row.id, row.created_at, row.category, label, _cut(row.text, most) if most else row.text)


def _cut(text: str, most: int) -> str:
    if js_length(text) <= most:
        return text
    return f"{without_half(js_slice(text, most - 1))}…"


def inject(turn: Turn, pack: Pack) -> Injected:
    """Pack the slots with ``pack(slots, comment)`` and write the receipt."""
    receipts = turn.config.receipts
    if not turn.slots:
        return Injected(None, _receipt(turn, 0, None) if receipts.enabled else None, turn.log)
    if not receipts.enabled:
        return Injected(pack(turn.slots, ""), None, turn.log)
    packed, receipt = _packed_with_receipt(turn, pack)
    budget = packed.receipt
    marks = []
    if budget["truncated"] and budget["enabled"]:
        names = ("beforeChars", "afterChars", "droppedIds", "droppedCount", "truncatedChars")
        marks = [("info", marker("contextBudget", {name: budget[name] for name in names}))]
    return Injected(packed, receipt, [*turn.log, *marks])


def _packed_with_receipt(turn: Turn, pack: Pack) -> tuple[Packed, dict[str, Any]]:
    """Pack repeatedly with the receipt of the previous packing, until two passes agree."""
    receipts = turn.config.receipts
    if receipts.verbosity != "high":
        # Without a comment the receipt takes no space, so one packing is enough.
        packed = pack(turn.slots, "")
        return packed, _receipt(turn, len(packed.kept), packed)
    receipt = _receipt(turn, len(turn.slots), None)
    packed = pack(turn.slots, prompt_comment(receipts, receipt))
    for _ in range(MAX_PASSES):
        receipt = _receipt(turn, len(packed.kept), packed)
        previous, packed = packed, pack(turn.slots, prompt_comment(receipts, receipt))
        if (len(previous.kept), previous.receipt["afterChars"]) == (len(packed.kept), packed.receipt["afterChars"]):
            break
    return packed, receipt


def _receipt(turn: Turn, injected: int, packed: Packed | None) -> dict[str, Any]:
    fts, vec = turn.tiers.lane_summaries(turn.config.receipts)
    parts: dict[str, Any] = {"fallback": turn.fallback}
    if packed is not None:
        parts["budget"] = packed.receipt
    if turn.cold_lane is not None:
        parts["coldLane"] = turn.cold_lane
    parts["workingSet"] = turn.working_set_receipt(packed.intact if packed else turn.slots)
    final = (turn.memories.by_id[pick.candidate.id] for pick in turn.final)
    return lifecycle_receipt(
        turn.config.receipts,
        scope=turn.scope,
        scope_mode=turn.scope_mode,
        rejected=turn.rejected,
        mode=turn.config.auto_recall.selection_mode,
        quota=turn.selection.quota,
        tier_counts=turn.selection.tier_counts,
        fts=fts,
        vec=vec,
        final=[Final(row.id, row.importance_label, row.scope) for row in final],
        injected=injected,
        parts=parts | turn.additions,
        explain_all=turn.config.explains_all,
    )
