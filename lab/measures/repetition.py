"""How often the same memories come back, turn after turn.

All of them look at one arm's selections in one conversation, in order. A selection is what was injected; it lists a
memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from lab.measures.columns import share

if TYPE_CHECKING:
    from lab.columns import Floats, Ints

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


def repeat_rates(chosen: Selections, window: int = WINDOW) -> Floats:
    """RepeatRate per turn: the share of its items that were injected in any of the previous ``window`` recall turns.

    NaN for an empty selection, and for the first turn that has one: nothing could have been repeated there.
    """
    import numpy as np

    again = np.bincount(chosen.turns[chosen.gaps <= window], minlength=len(chosen.sizes))
    started = np.cumsum(chosen.sizes) > chosen.sizes
    return np.where(started, share(again, chosen.sizes), np.nan)


def dominance(chosen: Selections, window: int = WINDOW) -> Floats:
    """RepeatDominance per turn.

    Over the last ``window`` selections, this one included, the share of slots that the commonest memory took.

    This is the Berger-Parker index. A selection lists a memory once, so the largest value is one over the mean
    selection size.
    """
    import numpy as np

    most = np.zeros(len(chosen.sizes) + window, np.int64)
    for later in range(window):
        # Each sight, as the last of its memory in the window that ends ``later`` turns after it.
        earlier = np.searchsorted(chosen.sights, chosen.sights + later - window, side="right")
        np.maximum.at(most, chosen.turns + later, np.arange(1, len(earlier) + 1) - earlier)
    return share(most[: len(chosen.sizes)], _slots(chosen.sizes, window))


def distinct_share(chosen: Selections, window: int = WINDOW) -> Floats:
    """DistinctShare per turn: over the last ``window`` selections, this one included, distinct memories over places.

    NaN where all of them are empty.
    """
    import numpy as np

    distinct = np.zeros(len(chosen.sizes) + window, np.int64)
    # A sight is the last of its memory in every window that ends before the next sight of it.
    until = np.append(chosen.gaps[1:], NEXT_MEMORY)[: len(chosen.sights)]
    for later in range(window):
        distinct += np.bincount(chosen.turns[until > later] + later, minlength=len(distinct))
    return share(distinct[: len(chosen.sizes)], _slots(chosen.sizes, window))


def longest_streak(chosen: Selections) -> float:
    """LongestStreak: the most consecutive recall turns in which one memory was injected; NaN where none ever was."""
    import numpy as np

    begins = np.flatnonzero(chosen.gaps != 1)
    return float(np.diff(begins, append=len(chosen.sights)).max()) if len(begins) else np.nan


def neighbour_jaccard(chosen: Selections) -> Floats:
    """Jaccard per turn.

    How alike this selection and the one before are; NaN for the first, and where both are empty.
    """
    import numpy as np

    both = np.bincount(chosen.turns[chosen.gaps == 1], minlength=len(chosen.sizes))
    alike = share(both, chosen.sizes + np.roll(chosen.sizes, 1) - both)
    alike[:1] = np.nan
    return alike


def _slots(sizes: Ints, window: int) -> Ints:
    """Places of the last ``window`` selections, by turn."""
    import numpy as np

    slots = np.cumsum(sizes)
    slots[window:] -= slots[:-window].copy()
    return slots
