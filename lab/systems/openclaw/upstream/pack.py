"""The budget of the injected block in the public plugin (E-32): drop slots, then cut the text."""

from __future__ import annotations

from collections.abc import Sequence

from lab.base.utf16 import js_length, js_slice
from lab.systems.openclaw.recall.budget import (
    Budget,
    Packed,
    Slot,
    budget_receipt,
    compose,
    drop_order,
    most_recent,
)
from lab.systems.openclaw.recall.wrap import HEAD, line


def pack(slots: Sequence[Slot], budget: Budget, comment: str = "") -> Packed:
    """Fit slots into the budget. Lengths are UTF-16 units.

    The most recent slots are protected; of the others the oldest are dropped first, or the last in the order of
    injection (under any other action none). A block that is still too long is cut anywhere, even inside the closing
    tag, as in the plugin. Dropping is by id, so slots with the same id are dropped together.
    """
    full_block = compose(slots, comment)
    before = js_length(full_block)
    if not budget.enabled:
        receipt = budget_receipt(budget, budget.min_recent_slots, before, before)
        return Packed(full_block, tuple(slots), receipt, tuple(slots))
    protected_count = min(max(0, budget.min_recent_slots), len(slots))
    protected = most_recent(slots, protected_count)
    kept, context = list(slots), full_block
    dropped: list[str] = []
    if before > budget.max_chars:
        for slot in drop_order(slots, budget):
            if slot.id in protected:
                continue
            if js_length(context) <= budget.max_chars:
                break
            kept = [other for other in kept if other.id != slot.id]
            dropped.append(slot.id)
            context = compose(kept, comment)
    overflow = max(0, js_length(context) - budget.max_chars)
    context = js_slice(context, budget.max_chars) if overflow else context
    receipt = budget_receipt(budget, protected_count, before, js_length(context), dropped, overflow)
    return Packed(context, tuple(kept), receipt, _intact(kept, comment, budget.max_chars))


def _intact(slots: Sequence[Slot], comment: str, end: int) -> tuple[Slot, ...]:
    """Return the slots whose lines end before a cut after ``end`` UTF-16 units of the composed text."""
    at = js_length(f"{comment}\n" if comment else "") + len(HEAD)
    for number, slot in enumerate(slots, 1):
        at += 1 + js_length(line(number, slot.category, slot.label, slot.text))
        if at > end:
            return tuple(slots[: number - 1])
    return tuple(slots)
