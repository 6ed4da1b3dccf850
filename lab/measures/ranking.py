"""Rankings with their gold, for all probes at once: the input of rank measures.

A ranking shorter than a cutoff is not padded: memories that were not returned count as missed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat

from lab.measures.columns import Flags, Floats, Ints, ragged


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
