"""The ceiling on the injected block as the seeds ask for it (E-32, E-58): hard rules go last, tags stay whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab.systems.openclaw.recall.budget import (
    Budget,
    Packed,
    Slot,
    budget_receipt,
    compose,
    drop_order,
    most_recent,
)
from lab.systems.openclaw.recall.wrap import escape
from lab.utf16 import js_length

Shorten = Callable[[Slot, int, bool], Slot | None]


class _Packing:
    """The slots that are left, and the ids of those that went."""

    def __init__(self, slots: Sequence[Slot], comment: str, max_chars: int) -> None:
        self.kept, self.dropped = list(slots), list[str]()
        self._comment, self._max_chars = comment, max_chars

    def over(self) -> int:
        """UTF-16 units beyond the ceiling."""
        return js_length(compose(self.kept, self._comment)) - self._max_chars

    def drop(self, slots: Iterable[Slot]) -> None:
        """Let slots go one by one while there is too much, but for the last that is left."""
        for slot in slots:
            if self.over() <= 0 or len(self.kept) == 1:
                return
            self.kept = [one for one in self.kept if one.id != slot.id]
            self.dropped.append(slot.id)

    def shrink(self, shorten: Shorten | None, *, rules: bool) -> None:
        """Make shorter what can be."""
        for at, slot in enumerate(self.kept):
            shorter = shorten(slot, self.over(), rules) if shorten is not None and self.over() > 0 else None
            if shorter is not None:
                self.kept[at] = shorter


def pack_well_formed(
    slots: Sequence[Slot],
    budget: Budget,
    comment: str = "",
    *,
    hard: frozenset[str] = frozenset(),
    shorten: Shorten | None = None,
) -> Packed:
    """Fit slots into the budget. Lengths are UTF-16 units.

    First the slots that the overflow action names go, hard and recent ones excepted. Then a slot that can be made
    shorter is: ``shorten(slot, units, rules)`` gives one that is shorter by that many units, as far as it can be, or
    None; what it holds of hard rules it gives up only for ``rules``. Then protected slots that are not hard, then the
    comment, then hard ones from the last, then hard rules within the one that is left. What is too long even so is cut
    inside its text, never inside a character, an entity or the closing tag.
    """
    whole = compose(slots, comment)
    before = js_length(whole)
    recent = min(max(0, budget.min_recent_slots), len(slots)) if budget.enabled else budget.min_recent_slots
    if not budget.enabled or before <= budget.max_chars:
        return Packed(whole, tuple(slots), budget_receipt(budget, recent, before, before), tuple(slots))
    protected = most_recent(slots, recent)
    soft = [slot for slot in drop_order(slots, budget) if slot.id not in hard]
    left = _Packing(slots, comment, budget.max_chars)
    left.drop(slot for slot in soft if slot.id not in protected)
    left.shrink(shorten, rules=False)
    left.drop(slot for slot in soft if slot.id in protected)
    if comment and left.over() > 0:
        # It goes, and what went for its sake alone comes back.
        packed = pack_well_formed(slots, budget, hard=hard, shorten=shorten)
        after = packed.receipt["afterChars"]
        return packed._replace(receipt=packed.receipt | {"beforeChars": before, "truncated": before > after})
    left.drop(slot for slot in reversed(slots) if slot.id in hard)
    left.shrink(shorten, rules=True)
    overflow = max(0, left.over())
    if overflow:
        left.kept = [left.kept[0]._replace(text=_cut_escaped(left.kept[0].text, overflow))]
    kept, context = tuple(left.kept), compose(left.kept, comment)
    return Packed(
        context, kept, budget_receipt(budget, recent, before, js_length(context), left.dropped, overflow), kept
    )


def closed_comment(comment: str) -> str:
    """A prompt comment that nothing in it can end.

    The public plugin's can be: a scope or an id may hold ``-->``. As escapes of JSON the brackets read the same.
    """
    if not comment:
        return ""
    inner = comment[len("<!--") : -len("-->")]
    return f"<!--{inner.replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')}-->"


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
