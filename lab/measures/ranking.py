"""Rankings beside their gold, for all probes at once: what every rank measure is computed from.

A ranking shorter than a cutoff is scored as it is: what was not returned was not found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat

from lab.measures.columns import Flags, Floats, Ints, ragged


class Judged:
    """Rankings beside what is wanted of them.

    ``grades`` are those of what stands at each place, ``[probes, places]``, NaN where nothing is, or what nobody
    judged; ``ideal`` those of all gold, best first, ``[probes, most gold]``, 0 where nothing is wanted; ``sizes`` the
    lengths of the rankings. What is graded ``level`` or more is relevant; nDCG alone counts grades as they are.

    The running sums are ``[probes, places + 1]``: column k is of the first k places.
    """

    def __init__(self, grades: Floats, ideal: Floats, sizes: Ints, level: int = 1) -> None:
        self.grades = grades
        self.ideal = ideal
        self.sizes = sizes
        self.level = level

    def at_level(self, level: int) -> Judged:
        """Return the same with another level of relevance."""
        return Judged(self.grades, self.ideal, self.sizes, level)

    @cached_property
    def gains(self) -> Floats:
        """The grades, 0 where nothing is, or nothing wanted."""
        import numpy as np

        return np.fmax(self.grades, 0.0)

    @cached_property
    def relevant(self) -> Flags:
        """Where something relevant stands."""
        return self.gains >= self.level

    @cached_property
    def gold(self) -> Ints:
        """How many memories each probe wants."""
        import numpy as np

        return np.asarray(np.count_nonzero(self.ideal >= self.level, axis=1))

    @cached_property
    def found(self) -> Floats:
        """How many of them are among the first k."""
        return running(self.relevant)

    @cached_property
    def gained(self) -> Floats:
        """Their grades, discounted by rank."""
        return running(self.gains / _discounts(self.gains.shape[1]))

    @cached_property
    def best(self) -> Floats:
        """What the best ranking of all gold gains."""
        return running(self.ideal / _discounts(self.ideal.shape[1]))


def judge(rankings: Sequence[Iterable[str]], grades: Sequence[Mapping[str, int]]) -> Judged:
    """Rankings beside the grades of their gold, one mapping a probe."""
    import numpy as np

    found = [list(map(gold.get, ranking, repeat(math.nan))) for ranking, gold in zip(rankings, grades, strict=True)]
    ideal = [sorted(gold.values(), reverse=True) for gold in grades]
    sizes = np.fromiter(map(len, found), np.int64, len(found))
    return Judged(ragged(found, math.nan), np.maximum(ragged(ideal), 0.0), sizes)


def running(values: Floats | Flags) -> Floats:
    """Sums of the first 0, 1, 2 … columns, added from left to right."""
    import numpy as np

    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def first(sums: Floats, k: int) -> Floats:
    """The running sum at k, or at the last place there is."""
    return sums[:, min(k, sums.shape[1] - 1)]


def or_one(whole: Floats | Ints) -> Floats:
    """What is divided by; 1 where it is nothing, so that nothing of nothing is 0, as trec_eval has it."""
    import numpy as np

    return np.where(whole > 0, whole, 1.0)


def _discounts(places: int) -> Floats:
    import numpy as np

    # The logarithm of math: numpy's may differ in the last bit.
    return np.array([math.log2(place + 2) for place in range(places)])
