"""The hard ceiling on what is put before a prompt (spec 8): slots are dropped one by one, then the text is cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lab.retrieval.collation import id_order
from lab.systems.openclaw.recall.wrap import HEAD, escape, line, wrap
from lab.utf16 import js_length, js_slice

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
    """The text that is injected, the slots that were not dropped, and the receipt of what had to go.

    ``intact`` are the slots whose lines stand whole in the text. Where :func:`pack` had to cut it, they are fewer than
    ``kept``, which is what the plugin's receipt counts.
    """

    context: str
    kept: tuple[Slot, ...]
    receipt: dict[str, Any]
    intact: tuple[Slot, ...]


def compose(slots: Sequence[Slot], comment: str = "") -> str:
    """The receipt comment, if there is one, and the block of the slots."""
    block = wrap([(slot.category, slot.label, slot.text) for slot in slots], empty=True)
    return f"{comment}\n{block}" if comment else block


def pack(slots: Sequence[Slot], budget: Budget, comment: str = "") -> Packed:
    """Fit slots into the budget. Lengths are UTF-16 units.

    The most recent slots are protected; of the others the oldest go first, or the last in the order of injection
    (under any other action none does). What is still too long is cut anywhere, even inside the closing tag: the
    plugin does so, too. Dropping goes by id, so slots that share one go together.
    """
    whole = compose(slots, comment)
    before = js_length(whole)
    if not budget.enabled:
        receipt = _receipt(budget, budget.min_recent_slots, before, before, [], 0)
        return Packed(whole, tuple(slots), receipt, tuple(slots))
    protected_count = min(max(0, budget.min_recent_slots), len(slots))
    protected = _most_recent(slots, protected_count)
    kept, context = list(slots), whole
    dropped: list[str] = []
    if before > budget.max_chars:
        for slot in _order_of_going(slots, budget):
            if slot.id in protected:
                continue
            if js_length(context) <= budget.max_chars:
                break
            kept = [one for one in kept if one.id != slot.id]
            dropped.append(slot.id)
            context = compose(kept, comment)
    overflow = max(0, js_length(context) - budget.max_chars)
    context = js_slice(context, budget.max_chars) if overflow else context
    receipt = _receipt(budget, protected_count, before, js_length(context), dropped, overflow)
    return Packed(context, tuple(kept), receipt, _intact(kept, comment, budget.max_chars))


def _intact(slots: Sequence[Slot], comment: str, end: int) -> tuple[Slot, ...]:
    """The slots whose lines end before a cut after ``end`` UTF-16 units of the composed text."""
    at = js_length(f"{comment}\n" if comment else "") + len(HEAD)
    for number, slot in enumerate(slots, 1):
        at += 1 + js_length(line(number, slot.category, slot.label, slot.text))
        if at > end:
            return tuple(slots[: number - 1])
    return tuple(slots)


def _most_recent(slots: Sequence[Slot], count: int) -> set[str]:
    """Ids of the most recent slots, which are protected."""
    return {slot.id for slot in sorted(slots, key=lambda slot: (-slot.created_at, id_order(slot.id)))[:count]}


def _order_of_going(slots: Sequence[Slot], budget: Budget) -> list[Slot]:
    """The slots as the overflow action drops them; none under an action that is not known."""
    if budget.overflow_action == "truncate_oldest":
        return sorted(slots, key=lambda slot: (slot.created_at, id_order(slot.id)))
    return list(reversed(slots)) if budget.overflow_action == "truncate_tail" else []


def _receipt(budget: Budget, recent: int, before: int, after: int, dropped: list[str], cut: int) -> dict[str, Any]:
    return {
        "enabled": budget.enabled,
        "maxChars": budget.max_chars,
        "minRecentSlots": recent,
        "overflowAction": budget.overflow_action,
        "beforeChars": before,
        "afterChars": after,
        "droppedCount": len(dropped),
        "droppedIds": dropped[:MAX_LISTED],
        "truncatedChars": cut,
        "truncated": before > after,
        "minRecentSlotsHonored": True,
    }


def pack_well_formed(
    slots: Sequence[Slot],
    budget: Budget,
    comment: str = "",
    *,
    hard: frozenset[str] = frozenset(),
    shorten: Callable[[Slot, int, bool], Slot | None] | None = None,
) -> Packed:
    """Fit slots into the budget as the seeds ask: hard rules go last and the block stays well formed (spec 8, 16.5).

    First the slots that :func:`pack` would drop go, hard ones excepted. Then a slot that can be made shorter is:
    ``shorten(slot, units, rules)`` gives one that is shorter by that many UTF-16 units, as far as it can be, or None;
    what it holds of hard rules it gives up only for ``rules``. Then protected slots that are not hard, then the
    comment, then hard ones from the last, then hard rules within the one that is left. What is too long even so is cut
    inside its text, never inside a character, an entity or the closing tag.
    """
    whole = compose(slots, comment)
    before = js_length(whole)
    if not budget.enabled or before <= budget.max_chars:
        recent = min(max(0, budget.min_recent_slots), len(slots)) if budget.enabled else budget.min_recent_slots
        return Packed(whole, tuple(slots), _receipt(budget, recent, before, before, [], 0), tuple(slots))
    protected_count = min(max(0, budget.min_recent_slots), len(slots))
    protected = _most_recent(slots, protected_count)
    soft = [slot for slot in _order_of_going(slots, budget) if slot.id not in hard]
    kept, dropped = list(slots), list[str]()

    def over() -> int:
        return js_length(compose(kept, comment)) - budget.max_chars

    def drop(candidates: Sequence[Slot]) -> None:
        nonlocal kept
        for slot in candidates:
            if over() <= 0 or len(kept) == 1:
                return
            kept = [one for one in kept if one.id != slot.id]
            dropped.append(slot.id)

    def shrink(*, rules: bool) -> None:
        for at, slot in enumerate(kept):
            shorter = shorten(slot, over(), rules) if shorten is not None and over() > 0 else None
            if shorter is not None:
                kept[at] = shorter

    drop([slot for slot in soft if slot.id not in protected])
    shrink(rules=False)
    drop([slot for slot in soft if slot.id in protected])
    if comment and over() > 0:
        # It goes, and what went for its sake alone comes back.
        packed = pack_well_formed(slots, budget, hard=hard, shorten=shorten)
        after = packed.receipt["afterChars"]
        return packed._replace(receipt=packed.receipt | {"beforeChars": before, "truncated": before > after})
    drop([slot for slot in reversed(slots) if slot.id in hard])
    shrink(rules=True)
    overflow = max(0, over())
    if overflow:
        kept = [kept[0]._replace(text=_cut_escaped(kept[0].text, overflow))]
    context = compose(kept, comment)
    receipt = _receipt(budget, protected_count, before, js_length(context), dropped, overflow)
    return Packed(context, tuple(kept), receipt, tuple(kept))


def _cut_escaped(text: str, overflow: int) -> str:
    """A text that is at least ``overflow`` units shorter once it is escaped: whole characters go from its end."""
    end = len(text)
    while end and (overflow > 0 or _splits_pair(text, end)):
        end -= 1
        overflow -= js_length(escape(text[end]))
    return text[:end]


def _splits_pair(text: str, at: int) -> bool:
    """Whether the halves of one character stand on both sides of a place; a text may hold them apart."""
    return "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at : at + 1] <= "\udfff"
