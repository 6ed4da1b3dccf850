"""The budget of the injected text (E-32): slots, their block, and the order in which slots are dropped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lab.retrieval.collation import id_order
from lab.systems.openclaw.recall.wrap import wrap

MAX_LISTED = 10


class Slot(NamedTuple):
    """One item of the injected block."""

    id: str
    created_at: float
    category: str
    label: str
    text: str


class Budget(NamedTuple):
    """The plugin's ``budget``."""

    enabled: bool = True
    max_chars: int = 1800
    min_recent_slots: int = 1
    overflow_action: str = "truncate_oldest"


class Packed(NamedTuple):
    """The injected text, the slots that were not dropped, and the receipt of what was dropped or cut.

    ``intact`` are the slots whose lines are complete in the text. If the plugin cut the text, they are fewer than
    ``kept``, which the plugin's receipt counts.
    """

    context: str
    kept: tuple[Slot, ...]
    receipt: dict[str, Any]
    intact: tuple[Slot, ...]


def compose(slots: Sequence[Slot], comment: str = "") -> str:
    """Return the receipt comment, if any, followed by the block of the slots."""
    block = wrap([(slot.category, slot.label, slot.text) for slot in slots], empty=True)
    return f"{comment}\n{block}" if comment else block


def most_recent(slots: Sequence[Slot], count: int) -> set[str]:
    """Return the ids of the ``count`` most recent slots, which are protected."""
    return {slot.id for slot in sorted(slots, key=lambda slot: (-slot.created_at, id_order(slot.id)))[:count]}


def drop_order(slots: Sequence[Slot], budget: Budget) -> list[Slot]:
    """Return the slots in the order in which the overflow action drops them; none for an unknown action."""
    if budget.overflow_action == "truncate_oldest":
        return sorted(slots, key=lambda slot: (slot.created_at, id_order(slot.id)))
    return list(reversed(slots)) if budget.overflow_action == "truncate_tail" else []


def budget_receipt(
    budget: Budget,
    recent: int,
    before: int,
    after: int,
    dropped: Sequence[str] = (),
    cut: int = 0,
    *,
    honored: bool = True,
) -> dict[str, Any]:
    """Return the receipt: lengths before and after, dropped slots, and the UTF-16 units ``cut`` off the text.

    ``honored``: whether every protected slot is whole in the block. The plugin always says so.
    """
    return {
        "enabled": budget.enabled,
        "maxChars": budget.max_chars,
        "minRecentSlots": recent,
        "overflowAction": budget.overflow_action,
        "beforeChars": before,
        "afterChars": after,
        "droppedCount": len(dropped),
        "droppedIds": list(dropped[:MAX_LISTED]),
        "truncatedChars": cut,
        "truncated": before > after,
        "minRecentSlotsHonored": honored,
    }
