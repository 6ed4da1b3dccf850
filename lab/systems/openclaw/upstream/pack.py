"""The ceiling on the injected block as the public plugin keeps it (E-32): slots are dropped, then the text is cut."""

from __future__ import annotations

from collections.abc import Sequence

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
from lab.utf16 import js_length, js_slice


def pack(slots: Sequence[Slot], budget: Budget, comment: str = "") -> Packed:
    """Fit slots into the budget. Lengths are UTF-16 units.

    The most recent slots are protected; of the others the oldest go first, or the last in the order of injection
    (under any other action none does). What is still too long is cut anywhere, even inside the closing tag: the
    plugin does so, too. Dropping goes by id, so slots that share one go together.
    """
    whole = compose(slots, comment)
    before = js_length(whole)
    if not budget.enabled:
        receipt = budget_receipt(budget, budget.min_recent_slots, before, before)
        return Packed(whole, tuple(slots), receipt, tuple(slots))
    protected_count = min(max(0, budget.min_recent_slots), len(slots))
    protected = most_recent(slots, protected_count)
    kept, context = list(slots), whole
    dropped: list[str] = []
    if before > budget.max_chars:
        for slot in drop_order(slots, budget):
            if slot.id in protected:
                continue
            if js_length(context) <= budget.max_chars:
                break
            kept = [one for one in kept if one.id != slot.id]
            dropped.append(slot.id)
            context = compose(kept, comment)
    overflow = max(0, js_length(context) - budget.max_chars)
    context = js_slice(context, budget.max_chars) if overflow else context
    receipt = budget_receipt(budget, protected_count, before, js_length(context), dropped, overflow)
    return Packed(context, tuple(kept), receipt, _intact(kept, comment, budget.max_chars))


def _intact(slots: Sequence[Slot], comment: str, end: int) -> tuple[Slot, ...]:
    """The slots whose lines end before a cut after ``end`` UTF-16 units of the composed text."""
    at = js_length(f"{comment}\n" if comment else "") + len(HEAD)
    for number, slot in enumerate(slots, 1):
        at += 1 + js_length(line(number, slot.category, slot.label, slot.text))
        if at > end:
            return tuple(slots[: number - 1])
    return tuple(slots)
