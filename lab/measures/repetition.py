"""Selections turn by turn: what every measure of repetition is computed from.

They are those of one arm in one conversation, in order. A selection is what was injected; it lists a memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from lab.measures.columns import Ints

WINDOW = 6
# A sight is a memory and a turn in one number. Sights of two memories are further apart than any window.
NEXT_MEMORY = 1 << 32


class Selections(NamedTuple):
    """``sizes`` of the selections, and every ``sight`` of a memory, by memory and then by turn."""

    sizes: Ints
    sights: Ints

    @property
    def turns(self) -> Ints:
        """The turn of every sight."""
        return self.sights % NEXT_MEMORY

    @property
    def gaps(self) -> Ints:
        """Turns since the sight before; of a memory that was not seen before, more than any window."""
        import numpy as np

        return np.diff(self.sights, prepend=-NEXT_MEMORY)


def numbered_selections(memories: Ints, sizes: Ints) -> Selections:
    """Selections of numbered memories that lie end to end."""
    import numpy as np

    turns = np.repeat(np.arange(len(sizes)), sizes)
    return Selections(sizes, np.sort(memories * NEXT_MEMORY + turns))


def selections_of(lists: Sequence[Sequence[str]]) -> Selections:
    """Selections of memory keys."""
    import numpy as np

    keys = list(chain.from_iterable(lists))
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    sizes = np.fromiter(map(len, lists), np.int64, len(lists))
    return numbered_selections(np.fromiter(map(numbers.__getitem__, keys), np.int64, len(keys)), sizes)


def slots_of(sizes: Ints, window: int) -> Ints:
    """Return how many items the last ``window`` selections hold, this one included, by turn."""
    import numpy as np

    slots = np.cumsum(sizes)
    slots[window:] -= slots[:-window].copy()
    return slots
