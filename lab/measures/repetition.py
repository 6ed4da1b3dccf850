"""The selections of one arm in one conversation, turn by turn: the input of measures of repetition.

A selection is the set of memories injected at a turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from lab.measures.columns import Ints

WINDOW = 6
# A sight encodes a memory and a turn in one number; sights of different memories differ by more than any window.
NEXT_MEMORY = 1 << 32


class Selections(NamedTuple):
    """The ``sizes`` of the selections, ``[turns]``, and all ``sights``, sorted by memory, then turn."""

    sizes: Ints
    sights: Ints

    @property
    def turns(self) -> Ints:
        """The turn of every sight."""
        return self.sights % NEXT_MEMORY

    @property
    def gaps(self) -> Ints:
        """Turns since the memory's previous sight; larger than any window for the first one."""
        import numpy as np

        return np.diff(self.sights, prepend=-NEXT_MEMORY)


def numbered_selections(memories: Ints, sizes: Ints) -> Selections:
    """Return selections from memory numbers, concatenated turn by turn."""
    import numpy as np

    turns = np.repeat(np.arange(len(sizes)), sizes)
    return Selections(sizes, np.sort(memories * NEXT_MEMORY + turns))


def selections_of(lists: Sequence[Sequence[str]]) -> Selections:
    """Return selections from lists of memory keys."""
    import numpy as np

    keys = list(chain.from_iterable(lists))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    sizes = np.fromiter(map(len, lists), np.int64, len(lists))
    return numbered_selections(np.fromiter(map(numbers.__getitem__, keys), np.int64, len(keys)), sizes)


def slots_of(sizes: Ints, window: int) -> Ints:
    """Return for each turn the number of items in the last ``window`` selections, including its own."""
    import numpy as np

    slots = np.cumsum(sizes)
    slots[window:] -= slots[:-window].copy()
    return slots
