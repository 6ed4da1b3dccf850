"""Apply the budget to many configurations at once: which selected memories stay, and the length of each block.

The rule is :func:`lab.systems.openclaw.seed.pack.pack_well_formed`. Slots are dropped here for all configurations at
once; a block that is still too long is packed by that function itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from lab.base.utf16 import js_length
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.many.frames import Known
from lab.systems.openclaw.recall.budget import Budget, Slot, compose
from lab.systems.openclaw.recall.inject import memory_slot
from lab.systems.openclaw.seed.pack import pack_well_formed

if TYPE_CHECKING:
    import numpy as np


class Packer:
    """The budget of one conversation. Lengths are UTF-16 units."""

    def __init__(self, known: Known, config: EngineConfig, *, flow: bool) -> None:
        import numpy as np

        self.known, self.budget = known, config.budget if flow else None
        phases = config.active_phases
        most = phases.item_max_chars if flow else 0
        self._slots = [memory_slot(row, 0 if row.hard_rule and phases.hard_rules else most) for row in known.rows]
        # What a slot adds to the length of a block, without the digits of its number.
        self._empty = js_length(compose([]))
        alone = (js_length(compose([slot])) - self._empty - 1 for slot in self._slots)
        self._lengths = np.asarray([*alone, 0], np.int64)
        self._cut = cache(self._pack_one)

    def pack(self, hard: Sequence[int], chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the injected rows ``[c, h + k]``, hard rules first, and the length and cut of each block, ``[c]``.

        Empty slots come last and hold ``known.none``.
        """
        import numpy as np

        none, count = self.known.none, len(chosen)
        slots = np.concatenate([np.tile(np.asarray(hard, np.int32), (count, 1)), chosen], axis=1)
        filled = slots != none
        filled_count = filled.sum(1)
        lengths = np.where(filled_count > 0, self._lengths[slots].sum(1) + _digits(filled_count) + self._empty, 0)
        cut = np.zeros(count, np.int64)
        if self.budget is None or not self.budget.enabled:
            return slots, lengths, cut
        over = (lengths > self.budget.max_chars).nonzero()[0]
        if len(over):
            slots[over], lengths[over], cut[over] = self._drop(slots[over], filled[over], len(hard))
        return slots, lengths, cut

    def _drop(self, slots: np.ndarray, filled: np.ndarray, hard: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        import numpy as np

        budget, known = self.budget, self.known
        assert budget is not None  # noqa: S101 - for the type checker: only budgets drop
        filled_count = filled.sum(1)
        recent = np.argsort(np.where(filled, known.newest[slots], len(known.rows)), axis=1, kind="stable")
        protected = np.zeros(slots.shape, bool)
        least = np.minimum(np.maximum(0, budget.min_recent_slots), filled_count)
        np.put_along_axis(protected, recent, np.arange(slots.shape[1]) < least[:, None], axis=1)
        if budget.overflow_action == "truncate_oldest":
            going = known.oldest[slots].astype(np.int64)
        else:
            going = np.broadcast_to(np.arange(slots.shape[1])[::-1], slots.shape).astype(np.int64)
        soft = filled & (np.arange(slots.shape[1]) >= hard)
        if budget.overflow_action not in ("truncate_oldest", "truncate_tail"):
            soft &= False
        last = np.iinfo(np.int64).max
        # Protected slots go last, from the end of the block.
        behind = (1 << 40) + np.arange(slots.shape[1])[::-1]
        order = np.argsort(np.where(soft, np.where(protected, behind, going), last), axis=1, kind="stable")
        kept, left = filled.copy(), filled_count.copy()
        total = self._lengths[slots].sum(1)
        every = np.arange(len(slots))
        for step in range(int(soft.sum(1).max(initial=0))):
            at = order[:, step]
            dropped = (total + _digits(left) + self._empty > budget.max_chars) & (left > 1) & soft[every, at]
            kept[every[dropped], at[dropped]] = False
            total -= np.where(dropped, self._lengths[slots[every, at]], 0)
            left -= dropped
        lengths = total + _digits(left) + self._empty
        packed = np.full_like(slots, known.none)
        slots_after = np.cumsum(kept, axis=1) - 1
        which, at = kept.nonzero()
        packed[which, slots_after[which, at]] = slots[which, at]
        cut = np.zeros(len(slots), np.int64)
        for row in (lengths > budget.max_chars).nonzero()[0].tolist():
            rows, lengths[row], cut[row] = self._cut(tuple(slots[row][filled[row]].tolist()), hard)
            packed[row] = known.none
            packed[row, : len(rows)] = rows
        return packed, lengths, cut

    def _pack_one(self, rows: tuple[int, ...], hard: int) -> tuple[list[int], int, int]:
        """Pack one block with the engine's own function, for blocks that are too long even after dropping slots."""
        budget = self.budget or Budget(enabled=False)
        slots: list[Slot] = [self._slots[row] for row in rows]
        packed = pack_well_formed(slots, budget, hard=frozenset(slot.id for slot in slots[:hard]))
        kept = [self.known.number[slot.id] for slot in packed.kept]
        return kept, js_length(packed.context), packed.receipt["truncatedChars"]


def _digits(many: np.ndarray) -> np.ndarray:
    """Return the total number of digits of 1 to ``many``, which is below 100."""
    import numpy as np

    digits: np.ndarray = many + np.maximum(0, many - 9)
    return digits
