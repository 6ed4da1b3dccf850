"""What measures are computed from: rankings at probes, and the turns and selections of an arm in a conversation.

All are numeric columns; a missing value is NaN here, and null on disk. Strings name the types of numpy, so that
importing this module does not load it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from lab.runs.receipts import Receipts

# Strings, so that importing this module does not load numpy.
Floats: TypeAlias = "NDArray[np.float64]"
Ints: TypeAlias = "NDArray[np.int64]"
Flags: TypeAlias = "NDArray[np.bool_]"
Number = TypeVar("Number", bound="np.generic")


def share(part: Floats | Ints, total: Floats | Ints) -> Floats:
    """Return ``part / total``; NaN where ``total`` is 0."""
    import numpy as np

    return np.where(total > 0, part / np.where(total > 0, total, 1), np.nan)


def where_any(count: Floats | Ints, value: Floats | Flags) -> Floats:
    """Return the value where ``count`` is positive, else NaN."""
    import numpy as np

    return np.where(count > 0, value, np.nan)


def padded(flat: NDArray[Number], sizes: Ints, fill: float = 0) -> NDArray[Number]:
    """Return the rows concatenated in ``flat``, of lengths ``sizes``, as a matrix padded with ``fill``."""
    import numpy as np

    grid = np.full((len(sizes), int(sizes.max(initial=0))), fill, flat.dtype)
    grid[np.arange(grid.shape[1]) < sizes[:, None]] = flat
    return grid


def ragged(rows: Sequence[Sequence[float]], fill: float = 0) -> Floats:
    """Return rows of numbers as a matrix padded with ``fill``."""
    import numpy as np

    sizes = np.fromiter(map(len, rows), np.int64, len(rows))
    return padded(np.fromiter(chain.from_iterable(rows), float, int(sizes.sum())), sizes, fill)


class Judged:
    """Rankings with the grades of their items.

    ``grades`` has the grade of the item at each rank, ``[probes, ranks]``, NaN for unjudged items and past the end;
    ``ideal`` the grades of all gold in descending order, ``[probes, maximum gold]``, padded with 0; ``sizes`` the
    lengths of the rankings. Items graded ``level`` or more are relevant; nDCG uses the grades themselves.

    Running sums are ``[probes, ranks + 1]``: column k is the sum over the first k ranks.
    """

    def __init__(self, grades: Floats, ideal: Floats, sizes: Ints, level: int = 1) -> None:
        self.grades = grades
        self.ideal = ideal
        self.sizes = sizes
        self.level = level

    def at_level(self, level: int) -> Judged:
        """Return the same rankings with another level of relevance."""
        return Judged(self.grades, self.ideal, self.sizes, level)

    @cached_property
    def gains(self) -> Floats:
        """The grades, with 0 for items that are missing or not relevant."""
        import numpy as np

        return np.fmax(self.grades, 0.0)

    @cached_property
    def relevant(self) -> Flags:
        """Flags of the ranks with a relevant item."""
        return self.gains >= self.level

    @cached_property
    def gold(self) -> Ints:
        """Number of relevant memories of each probe."""
        import numpy as np

        return np.asarray(np.count_nonzero(self.ideal >= self.level, axis=1))

    @cached_property
    def hits(self) -> Floats:
        """Running sums of relevant items."""
        return running(self.relevant)

    @cached_property
    def dcg(self) -> Floats:
        """Running sums of grades, discounted by rank."""
        return running(self.gains / _discounts(self.gains.shape[1]))

    @cached_property
    def ideal_dcg(self) -> Floats:
        """Running sums of discounted grades of the ideal ranking."""
        return running(self.ideal / _discounts(self.ideal.shape[1]))


def judge(rankings: Sequence[Iterable[str]], grades: Sequence[Mapping[str, int]]) -> Judged:
    """Return rankings with the grades of their gold, one mapping of keys to grades for each probe."""
    import numpy as np

    ranked = [list(map(gold.get, ranking, repeat(math.nan))) for ranking, gold in zip(rankings, grades, strict=True)]
    # Grades of 0 are most of a densely judged probe, and add nothing to an ideal ranking.
    ideal = [sorted((grade for grade in gold.values() if grade > 0), reverse=True) for gold in grades]
    sizes = np.fromiter(map(len, ranked), np.int64, len(ranked))
    return Judged(ragged(ranked, math.nan), np.maximum(ragged(ideal), 0.0), sizes)


def running(values: Floats | Flags) -> Floats:
    """Return the sums of the first 0, 1, 2 … columns, added from left to right."""
    import numpy as np

    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def first(sums: Floats, k: int) -> Floats:
    """Return the running sum at rank k, or at the last rank if there are fewer."""
    return sums[:, min(k, sums.shape[1] - 1)]


def or_one(denominator: Floats | Ints) -> Floats:
    """Return the denominator, or 1 where it is 0, so that 0/0 is 0 as in trec_eval."""
    import numpy as np

    return np.where(denominator > 0, denominator, 1.0)


def _discounts(ranks: int) -> Floats:
    import numpy as np

    # math.log2, because numpy's may differ in the last bit.
    return np.array([math.log2(rank + 2) for rank in range(ranks)])


def groups_of(numbers: Ints) -> Iterator[Ints]:
    """Yield the positions of each number in order; those of negative numbers are in no group."""
    import numpy as np

    for number in np.unique(numbers[numbers >= 0]):
        yield np.flatnonzero(numbers == number)


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


class Probes(NamedTuple):
    """Columns of the probes, in order: one row of every :class:`Judged` and one value of every array for each probe.

    ``ranked`` compares the ranking with all judgements; ``injected`` and ``pinned`` compare injected memories and those
    of the Working Set with the relevant memories; ``nice`` and ``misleading`` compare injected memories with the
    visible relevant memories labelled nice_to_have, and with those judged misleading, and ``pinned_misleading`` those
    of the Working Set with the latter. ``items`` counts injected
    memories; ``chars`` and ``tokens`` are the length of the injected block, in UTF-16 units and estimated tokens.
    ``answer_share`` is the share of the gold answer that the block has, NaN without an answer. ``points`` number the
    recall points in time. ``corrections`` number what was corrected: probes about one correction have one number, those
    about none -1.
    """

    ranked: Judged
    injected: Judged
    pinned: Judged
    nice: Judged
    misleading: Judged
    items: Floats
    chars: Floats
    tokens: Floats
    answer_share: Floats
    points: Ints
    corrections: Ints
    pinned_misleading: Judged


class Turns(NamedTuple):
    """Columns of the recall turns, in order: one value for each turn.

    * ``chosen``: the injected memories. ``injected``: how many there are. ``nice``: how many of them are labelled
      nice_to_have. ``foreign``: how many are of another scope. ``visible_nice``: how many memories labelled
      nice_to_have the turn could have recalled.
    * ``must``: the injected must_remember memories that are neither exempt from repeat suppression nor pinned.
    * ``pinned``: memories that the Working Set held; ``duplicates``: injected memories that repeat it, NaN without a
      Working Set. ``hard_rules``, ``hard_kept``: visible hard rules, and those whose text is in the prompt.
    * ``chars``, ``tokens``: length of the block, in UTF-16 units and in estimated tokens; ``evicted``: items that the
      budget dropped, NaN where the receipt does not say.
    * Numbers of injected memories with a fault. ``future``: the memory does not exist yet at the turn.
      ``duplicate_items``: it repeats an earlier one of the block. ``unescaped``: its markup is not escaped.
      ``stale``: it is superseded, and no memory that supersedes it stands before it in the block.
    * ``superseded``: memories of the conversation that are superseded by then, injected or not.
    * ``prefix_tokens``, ``body_chars``, ``stable_chars``, ``receipt_bytes``, ``receipt_lines``, ``to_explain``,
      ``explained``: the columns of receipts of these names, NaN where there is no value.
    """

    chosen: Selections
    must: Selections
    injected: Ints
    nice: Ints
    foreign: Ints
    visible_nice: Floats
    pinned: Ints
    duplicates: Floats
    hard_rules: Floats
    hard_kept: Floats
    chars: Floats
    tokens: Floats
    evicted: Floats
    future: Floats
    duplicate_items: Floats
    unescaped: Floats
    stale: Floats
    superseded: Floats
    prefix_tokens: Floats
    body_chars: Floats
    stable_chars: Floats
    receipt_bytes: Floats
    receipt_lines: Floats
    to_explain: Floats
    explained: Floats


def turns_of(receipts: Receipts, rows: Ints) -> Turns:
    """Return the columns of ``rows`` of receipts, which must be recall turns of one arm."""
    injected = receipts.injected_of(rows)
    block = {name: column[rows] for name, column in receipts.block.items()}
    superseded = block.pop("outdated")
    return Turns(
        chosen=numbered_selections(injected.memory, injected.sizes),
        must=numbered_selections(injected.memory[injected.must], injected.by_row(injected.must)),
        injected=injected.sizes,
        nice=injected.by_row(injected.nice),
        foreign=injected.by_row(injected.foreign),
        visible_nice=receipts.visible_nice[rows],
        pinned=receipts.pinned_of(rows),
        duplicates=receipts.duplicates[rows],
        hard_rules=receipts.hard_rules[rows],
        hard_kept=receipts.hard_kept[rows],
        chars=receipts.chars[rows],
        superseded=superseded,
        **block,
    )
