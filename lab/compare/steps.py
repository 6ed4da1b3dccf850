"""Where a series of numbers stepped from one level to another.

A piecewise constant fit, as in asv's step detection: the Potts functional with absolute deviations,

    sum |y_i - level of i's segment|  +  penalty * number of steps,

with the penalty chosen by an information criterion. For every number of segments the best fit is found exactly, by
dynamic programming over all places (Friedrich, Kempe, Liebscher and Winkler, J. Comput. Graph. Stat. 17, 2008); a level
is the median of its segment. Of these fits the one is taken that minimises

    log(deviation) + beta * segments,      beta = 4 log(n) / n,

the criterion of Schwarz for deviations of a Laplace distribution whose width is estimated, four times as strict, which
is asv's choice: there are many nightly runs, and people stop reading false alarms. Noise of any size pays for itself:
a step must shrink the deviation of the *whole* series by a factor. Segments have :data:`SHORTEST` values or more, for a
fit to single values has no deviation left and proves nothing.

Where there is no noise, there is nothing to estimate: a deterministic replay of unchanged code gives exactly equal
numbers, the deviation of the true fit is nothing, and any finite penalty is paid. So a series in which most values
repeat the one before exactly steps wherever it changes, on the first night, and nowhere else; a value that goes back at
once is two steps. Differences up to ``least`` are none: what another machine's rounding does to a mean is no news.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappush, heappushpop
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST = 1e-9
# Values of a segment where there is noise.
SHORTEST = 4
# Segments looked for at most where there is noise.
MOST = 32
# Share of values that repeat the one before, from which on there is no noise.
EXACT = 2 / 3


class Step(NamedTuple):
    """A step: the first place of the new level, and the levels before and after."""

    at: int
    before: float
    after: float


def steps(values: Sequence[float], *, least: float = LEAST, exact: bool = False) -> list[Step]:
    """The steps of a series of finite numbers, in order; none for fewer than two values.

    ``exact`` says that each value would come again as it is, as one that was measured twice: then a series too short
    for a fit steps wherever it changes.
    """
    if not all(map(math.isfinite, values)):
        raise ValueError("steps of numbers that are not finite")
    changes = [at for at in range(1, len(values)) if abs(values[at] - values[at - 1]) > least]
    repeats = len(values) - 1 - len(changes) >= EXACT * (len(values) - 1)
    certain = repeats or (exact and len(values) < 2 * SHORTEST)
    firsts = [0, *changes] if certain else _best(values, least)
    levels = [median(values[first:end]) for first, end in zip(firsts, [*firsts[1:], len(values)], strict=True) if end]
    return [
        Step(at, before, after)
        for at, before, after in zip(firsts[1:], levels, levels[1:], strict=False)
        if abs(after - before) > least
    ]


def _best(values: Sequence[float], least: float) -> list[int]:
    """Where the segments of the best fit begin."""
    many = len(values)
    if many < 2 * SHORTEST:
        return [0]
    fits = _fits(_deviations(values))
    beta = 4 * math.log(many) / many
    scores = [math.log(least + deviation) + beta * number for number, (deviation, _) in enumerate(fits, 1)]
    firsts, end = [], many
    for number in range(scores.index(min(scores)), -1, -1):
        end = int(fits[number][1][end - 1])
        firsts.append(end)
    return firsts[::-1]


def _deviations(values: Sequence[float]) -> NDArray[np.float64]:
    """``[first, last]``: the sum of absolute deviations from the median of a segment, both ends included.

    Infinite where a segment is too short. Two heaps hold the lower and the upper half of what has come in; the
    deviation is the sum above the median less the sum below it.
    """
    import numpy as np

    many = len(values)
    found = np.full((many, many), np.inf)
    for first in range(many - SHORTEST + 1):
        low: list[float] = []
        high: list[float] = []
        below = above = 0.0
        for count, value in enumerate(values[first:], 1):
            if count % 2:
                up = heappushpop(high, value)
                heappush(low, -up)
                above += value - up
                below += up
            else:
                down = -heappushpop(low, -value)
                heappush(high, down)
                below += value - down
                above += down
            if count >= SHORTEST:
                # Of an odd number of values the median itself is in the lower half.
                found[first, first + count - 1] = max(above - below - (low[0] if count % 2 else 0.0), 0.0)
    return found


def _fits(deviations: NDArray[np.float64]) -> list[tuple[float, NDArray[np.int64]]]:
    """With 1, 2 … segments: the least deviation, and by where the last segment ends where it begins."""
    import numpy as np

    many = len(deviations)
    best = deviations[0]
    found = [(float(best[-1]), np.zeros(many, np.int64))]
    for _ in range(1, min(many // SHORTEST, MOST)):
        # [first, last]: the best of what comes before ``first``, and one segment from there to ``last``.
        with_one_more = np.concatenate([[np.inf], best[:-1]])[:, None] + deviations
        starts = np.argmin(with_one_more, axis=0)
        best = np.min(with_one_more, axis=0)
        found.append((float(best[-1]), starts))
    return found
