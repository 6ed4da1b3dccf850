"""The budget of the injected block as specified by the seeds (E-32, E-58): drop hard rules last, keep tags whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from lab.base.utf16 import js_length
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

Shorten = Callable[[Slot, int, bool], Slot | None]


class _Packing:
    """The remaining slots, and the ids of the dropped ones."""

    def __init__(self, slots: Sequence[Slot], comment: str, max_chars: int) -> None:
        self.kept, self.dropped = list(slots), list[str]()
        self._comment, self._max_chars = comment, max_chars

    def over(self) -> int:
        """Return the number of UTF-16 units above the limit."""
        return js_length(compose(self.kept, self._comment)) - self._max_chars

    def drop(self, slots: Iterable[Slot]) -> None:
        """Drop slots one by one while the block is too long, but keep the last one."""
        for slot in slots:
            if self.over() <= 0 or len(self.kept) == 1:
                return
            self.kept = [other for other in self.kept if other.id != slot.id]
            self.dropped.append(slot.id)

    def shrink(self, shorten: Shorten | None, *, rules: bool) -> None:
        """Shorten slots while the block is too long."""
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

    In order: drop slots by the overflow action, except hard and recent ones; shorten slots; drop the comment; drop
    recent slots that are not hard, from the last one; drop hard slots from the last one; shorten hard rules in the
    remaining slot. If the block is still too long, cut its text, but never inside a character, an entity or the closing
    tag. The plugin instead cuts the end of the block wherever the budget ends.

    ``shorten(slot, units, rules)`` returns a slot that is shorter by that many units if possible, or None; it removes
    hard rules only if ``rules``.
    """
    full_block = compose(slots, comment)
    before = js_length(full_block)
    recent = min(max(0, budget.min_recent_slots), len(slots)) if budget.enabled else budget.min_recent_slots
    if not budget.enabled or before <= budget.max_chars:
        return Packed(full_block, tuple(slots), budget_receipt(budget, recent, before, before), tuple(slots))
    protected = most_recent(slots, recent)
    soft = [slot for slot in drop_order(slots, budget) if slot.id not in hard]
    packing = _Packing(slots, comment, budget.max_chars)
    packing.drop(slot for slot in soft if slot.id not in protected)
    packing.shrink(shorten, rules=False)
    if comment and packing.over() > 0:
        # Start again without the comment, so that slots dropped only because of it are kept.
        packed = pack_well_formed(slots, budget, hard=hard, shorten=shorten)
        after = packed.receipt["afterChars"]
        return packed._replace(receipt=packed.receipt | {"beforeChars": before, "truncated": before > after})
    packing.drop(slot for slot in reversed(slots) if slot.id in protected and slot.id not in hard)
    packing.drop(slot for slot in reversed(slots) if slot.id in hard)
    packing.shrink(shorten, rules=True)
    overflow = max(0, packing.over())
    if overflow:
        packing.kept = [packing.kept[0]._replace(text=_cut_escaped(packing.kept[0].text, overflow))]
    kept, context = tuple(packing.kept), compose(packing.kept, comment)
    honored = not overflow and protected <= {slot.id for slot in kept}
    receipt = budget_receipt(budget, recent, before, js_length(context), packing.dropped, overflow, honored=honored)
    return Packed(context, kept, receipt, kept)


def closed_comment(comment: str) -> str:
    """Return a prompt comment whose content cannot end it.

    The public plugin's comment can be ended: a scope or an id may contain ``-->``. Brackets escaped as in JSON are read
    back unchanged.
    """
    if not comment:
        return ""
    inner = comment[len("<!--") : -len("-->")]
    return f"<!--{inner.replace('<', chr(92) + 'u003c').replace('>', chr(92) + 'u003e')}-->"


def _cut_escaped(text: str, overflow: int) -> str:
    """Remove whole characters from the end of a text until its escaped form is ``overflow`` units shorter."""
    end = len(text)
    while end and (overflow > 0 or _splits_pair(text, end)):
        end -= 1
        overflow -= js_length(escape(text[end]))
    return text[:end]


def _splits_pair(text: str, at: int) -> bool:
    """Whether index ``at`` is between the two halves of a surrogate pair."""
    return "\ud800" <= text[at - 1] <= "\udbff" and "\udc00" <= text[at : at + 1] <= "\udfff"
