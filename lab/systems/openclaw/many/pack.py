"""The budget over arrays: which of the selected memories stay, and how long the block is, for many configurations.

The rule is :func:`lab.systems.openclaw.seed.pack.pack_well_formed`. Dropping slots is done here for all
configurations at once; a block that no dropping makes short enough goes through that function itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from lab.systems.openclaw.many.frames import Known
from lab.systems.openclaw.recall.budget import Budget, Slot, compose
from lab.systems.openclaw.recall.inject import memory_slot
from lab.systems.openclaw.seed.pack import pack_well_formed
from lab.utf16 import js_length

if TYPE_CHECKING:
    import numpy as np


class Packer:
    """Budgets of one conversation. Lengths are UTF-16 units."""

    def __init__(self, known: Known, budget: Budget | None) -> None:
        import numpy as np

        self.known, self.budget = known, budget
        self._slots = [memory_slot(row) for row in known.rows]
        # What a slot adds to a block, but for the digits of its number.
        self._empty = js_length(compose([]))
        alone = (js_length(compose([slot])) - self._empty - 1 for slot in self._slots)
        self._lengths = np.asarray([*alone, 0], np.int64)
        self._cut = cache(self._slowly)

    def pack(self, hard: Sequence[int], chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What is injected, hard rules first, rows ``[c, h + k]``; the length of each block and what was cut, ``[c]``.

        Places that are empty, or that the budget emptied, hold the number of none, and stand last.
        """
        import numpy as np

        none, count = self.known.none, len(chosen)
        slots = np.concatenate([np.tile(np.asarray(hard, np.int32), (count, 1)), chosen], axis=1)
        there = slots != none
        many = there.sum(1)
        lengths = np.where(many > 0, self._lengths[slots].sum(1) + _digits(many) + self._empty, 0)
        cut = np.zeros(count, np.int64)
        if self.budget is None or not self.budget.enabled:
            return slots, lengths, cut
        over = (lengths > self.budget.max_chars).nonzero()[0]
        if len(over):
            slots[over], lengths[over], cut[over] = self._drop(slots[over], there[over], len(hard))
        return slots, lengths, cut

    def _drop(self, slots: np.ndarray, there: np.ndarray, hard: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        import numpy as np

        budget, known = self.budget, self.known
        assert budget is not None  # noqa: S101 - for the type checker: only budgets drop
        many = there.sum(1)
        recent = np.argsort(np.where(there, known.newest[slots], len(known.rows)), axis=1, kind="stable")
        protected = np.zeros(slots.shape, bool)
        least = np.minimum(np.maximum(0, budget.min_recent_slots), many)
        np.put_along_axis(protected, recent, np.arange(slots.shape[1]) < least[:, None], axis=1)
        if budget.overflow_action == "truncate_oldest":
            going = known.oldest[slots].astype(np.int64)
        else:
            going = np.broadcast_to(np.arange(slots.shape[1])[::-1], slots.shape).astype(np.int64)
        soft = there & (np.arange(slots.shape[1]) >= hard)
        if budget.overflow_action not in ("truncate_oldest", "truncate_tail"):
            soft &= False
        last = np.iinfo(np.int64).max
        order = np.argsort(np.where(soft, going + protected * (1 << 40), last), axis=1, kind="stable")
        kept, left = there.copy(), many.copy()
        total = self._lengths[slots].sum(1)
        every = np.arange(len(slots))
        for step in range(int(soft.sum(1).max(initial=0))):
            at = order[:, step]
            goes = (total + _digits(left) + self._empty > budget.max_chars) & (left > 1) & soft[every, at]
            kept[every[goes], at[goes]] = False
            total -= np.where(goes, self._lengths[slots[every, at]], 0)
            left -= goes
        lengths = total + _digits(left) + self._empty
        packed = np.full_like(slots, known.none)
        places = np.cumsum(kept, axis=1) - 1
        which, at = kept.nonzero()
        packed[which, places[which, at]] = slots[which, at]
        cut = np.zeros(len(slots), np.int64)
        for one in (lengths > budget.max_chars).nonzero()[0].tolist():
            rows, lengths[one], cut[one] = self._cut(tuple(slots[one][there[one]].tolist()), hard)
            packed[one] = known.none
            packed[one, : len(rows)] = rows
        return packed, lengths, cut

    def _slowly(self, rows: tuple[int, ...], hard: int) -> tuple[list[int], int, int]:
        """The engine's own packing of one block, for what dropping alone does not settle."""
        budget = self.budget or Budget(enabled=False)
        slots: list[Slot] = [self._slots[row] for row in rows]
        packed = pack_well_formed(slots, budget, hard=frozenset(slot.id for slot in slots[:hard]))
        kept = [self.known.number[slot.id] for slot in packed.kept]
        return kept, js_length(packed.context), packed.receipt["truncatedChars"]


def _digits(many: np.ndarray) -> np.ndarray:
    """Digits of the numbers 1 to ``many``, which is below 100."""
    import numpy as np

    digits: np.ndarray = many + np.maximum(0, many - 9)
    return digits
