"""Rank measures under their TREC names, for all probes at once.

A measure is a function of :class:`Judged`, the grades of every ranking place by place, and of a cutoff. A ranking
shorter than the cutoff is scored as it is: what was not returned was not found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

from lab.measures.columns import ragged

if TYPE_CHECKING:
    from lab.columns import Flags, Floats, Ints

CUTOFFS = (1, 3, 5, 6, 10, 20, 50)


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
        return _running(self.relevant)

    @cached_property
    def gained(self) -> Floats:
        """Their grades, discounted by rank."""
        return _running(self.gains / _discounts(self.gains.shape[1]))

    @cached_property
    def best(self) -> Floats:
        """What the best ranking of all gold gains."""
        return _running(self.ideal / _discounts(self.ideal.shape[1]))


def success(judged: Judged, k: int) -> Floats:
    """Success@k, also called hit@k: 1 if any gold memory is among the first k."""
    return (_first(judged.found, k) > 0).astype(float)


def recall(judged: Judged, k: int) -> Floats:
    """R@k: the share of the gold memories that is among the first k."""
    return _first(judged.found, k) / _some(judged.gold)


def all_gold(judged: Judged, k: int) -> Floats:
    """AllGold@k: 1 if every gold memory is among the first k; where more are wanted than k, or none, it is 0."""
    import numpy as np

    return np.where((judged.gold > 0) & (_first(judged.found, k) == judged.gold), 1.0, 0.0)


def precision(judged: Judged, k: int) -> Floats:
    """P@k: the share of k places that hold a gold memory; an empty place counts as a wrong one."""
    return _first(judged.found, k) / k


def ndcg(judged: Judged, k: int) -> Floats:
    """nDCG@k with linear gain and a log2 discount, as trec_eval's ndcg_cut.

    Normalised by the best ranking of all gold.
    """
    return _first(judged.gained, k) / _some(_first(judged.best, k))


def reciprocal_rank(judged: Judged, k: int) -> Floats:
    """RR@k: one over the rank of the first gold memory, 0 if none is among the first k."""
    import numpy as np

    # Of the columns 0, 1, 2 … as many hold no gold as the rank of the first one says.
    rank = np.count_nonzero(judged.found == 0, axis=1)
    return np.where(_first(judged.found, k) > 0, 1.0 / rank, 0.0)


def average_precision(judged: Judged, k: int) -> Floats:
    """AP@k: the mean, over all gold memories, of the precision at their rank; 0 for one not among the first k."""
    import numpy as np

    precisions = judged.found[:, 1:] / np.arange(1, judged.found.shape[1])
    return _first(_running(precisions * judged.relevant), k) / _some(judged.gold)


def r_precision(judged: Judged, k: int) -> Floats:
    """Rprec@k: the precision at as many places as there are gold memories, of the first k."""
    import numpy as np

    places = np.minimum(judged.gold, min(k, judged.found.shape[1] - 1))
    return np.take_along_axis(judged.found, places[:, None], axis=1)[:, 0] / _some(judged.gold)


def judged_share(judged: Judged, k: int) -> Floats:
    """Judged@k, as ir_measures has it.

    The share of the first k that somebody judged, wanted or not; where fewer came back, of those that did.
    """
    import numpy as np

    return _first(_running(~np.isnan(judged.grades)), k) / _some(np.minimum(judged.sizes, k))


Measure = Callable[[Judged, int], "Floats"]
# What every run is scored by.
MEASURES: dict[str, Measure] = {
    "Success": success,
    "R": recall,
    "AllGold": all_gold,
    "P": precision,
    "nDCG": ndcg,
    "RR": reciprocal_rank,
    "AP": average_precision,
    "Judged": judged_share,
}
KNOWN = MEASURES | {"Rprec": r_precision}


def rank_measures(judged: Judged, depth: int, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Floats]:
    """Every measure at every cutoff, a value a probe; NaN where the cutoff is beyond what the arm can return."""
    import numpy as np

    nothing = np.full(len(judged.gains), np.nan)
    return {
        f"{name}@{k}": measure(judged, k) if k <= depth else nothing
        for k in cutoffs
        for name, measure in MEASURES.items()
    }


def judge(rankings: Sequence[Iterable[str]], grades: Sequence[Mapping[str, int]]) -> Judged:
    """Rankings beside the grades of their gold, one mapping a probe."""
    import numpy as np

    found = [list(map(gold.get, ranking, repeat(math.nan))) for ranking, gold in zip(rankings, grades, strict=True)]
    ideal = [sorted(gold.values(), reverse=True) for gold in grades]
    sizes = np.fromiter(map(len, found), np.int64, len(found))
    return Judged(ragged(found, math.nan), np.maximum(ragged(ideal), 0.0), sizes)


def _running(values: Floats | Flags) -> Floats:
    """Sums of the first 0, 1, 2 … columns, added from left to right."""
    import numpy as np

    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def _first(running: Floats, k: int) -> Floats:
    """The running sum at k, or at the last place there is."""
    return running[:, min(k, running.shape[1] - 1)]


def _some(whole: Floats | Ints) -> Floats:
    """What is divided by; 1 where it is nothing, so that nothing of nothing is 0, as trec_eval has it."""
    import numpy as np

    return np.where(whole > 0, whole, 1.0)


def _discounts(places: int) -> Floats:
    import numpy as np

    # The logarithm of math: numpy's may differ in the last bit.
    return np.array([math.log2(place + 2) for place in range(places)])
