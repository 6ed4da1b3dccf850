"""Step detection: where a series of numbers changes from one level to another.

The method is a piecewise constant fit, as in asv's step detection: the Potts functional with absolute deviations,

    sum |y_i - level of i's segment|  +  penalty * number of steps,

with the penalty chosen by an information criterion. For each number of segments, dynamic programming finds the best fit
exactly (Friedrich, Kempe, Liebscher and Winkler, J. Comput. Graph. Stat. 17, 2008); a level is the median of its
segment. The chosen fit minimises

    log(deviation) + beta * segments,      beta = 4 log(n) / n,

which is Schwarz's criterion for Laplace-distributed deviations of unknown width, with a penalty four times as strict.
That is asv's choice: there are many nightly runs, and people stop reading reports with false alarms. The criterion does
not depend on the size of the noise, because a step must reduce the deviation of the *whole* series by a factor. Each
segment has at least :data:`SHORTEST` values; a fit to single values would leave no deviation to compare.

A series without noise needs another rule: a deterministic replay of unchanged code gives exactly equal numbers, so the
true fit has no deviation and would outweigh any finite penalty. If most values equal the previous one exactly, there is
a step at every change, on the first nightly run that shows it; a change that is reverted at once counts as two steps.
Differences up to ``least`` are ignored, because they come from another machine's rounding.
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
# Fewest values of a segment in a noisy series.
SHORTEST = 4
# Most segments in a noisy series.
MOST = 32
# Share of values equal to the previous one from which a series counts as noise-free.
EXACT = 2 / 3


class Step(NamedTuple):
    """A step: the index of the first value at the new level, and the levels before and after."""

    at: int
    before: float
    after: float


def steps(values: Sequence[float], *, least: float = LEAST, exact: bool = False) -> list[Step]:
    """Return the steps of a series of finite numbers, in order; none for fewer than two values.

    ``exact`` says that the values are reproducible, as after a repeated run: a series too short for a fit then has a
    step at every change. Raises ValueError for numbers that are not finite.
    """
    if not all(map(math.isfinite, values)):
        raise ValueError("step detection needs finite numbers")
    changes = [at for at in range(1, len(values)) if abs(values[at] - values[at - 1]) > least]
    is_noise_free = len(values) - 1 - len(changes) >= EXACT * (len(values) - 1)
    use_changes = is_noise_free or (exact and len(values) < 2 * SHORTEST)
    firsts = [0, *changes] if use_changes else _best(values, least)
    levels = [median(values[first:end]) for first, end in zip(firsts, [*firsts[1:], len(values)], strict=True) if end]
    return [
        Step(at, before, after)
        for at, before, after in zip(firsts[1:], levels, levels[1:], strict=False)
        if abs(after - before) > least
    ]


def _best(values: Sequence[float], least: float) -> list[int]:
    """Return the indices at which the segments of the best fit begin."""
    count = len(values)
    if count < 2 * SHORTEST:
        return [0]
    fits = _fits(_deviations(values))
    beta = 4 * math.log(count) / count
    scores = [math.log(least + deviation) + beta * number for number, (deviation, _) in enumerate(fits, 1)]
    firsts, end = [], count
    for number in range(scores.index(min(scores)), -1, -1):
        end = int(fits[number][1][end - 1])
        firsts.append(end)
    return firsts[::-1]


def _deviations(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the matrix ``[first, last]`` of the sum of absolute deviations from the median of each segment.

    Both ends are inclusive; too short a segment has infinity. Two heaps hold the lower and the upper half of the values
    so far; the deviation is the sum above the median minus the sum below it.
    """
    import numpy as np

    size = len(values)
    matrix = np.full((size, size), np.inf)
    for first in range(size - SHORTEST + 1):
        low: list[float] = []
        high: list[float] = []
        below = above = 0.0
        for count, value in enumerate(values[first:], 1):
            if count % 2:
                smallest = heappushpop(high, value)
                heappush(low, -smallest)
                above += value - smallest
                below += smallest
            else:
                largest = -heappushpop(low, -value)
                heappush(high, largest)
                below += value - largest
                above += largest
            if count >= SHORTEST:
                # With an odd number of values, the lower half includes the median.
                matrix[first, first + count - 1] = max(above - below - (low[0] if count % 2 else 0.0), 0.0)
    return matrix


def _fits(deviations: NDArray[np.float64]) -> list[tuple[float, NDArray[np.int64]]]:
    """Return, for 1, 2, … segments, the smallest deviation and where the last segment begins, by where it ends."""
    import numpy as np

    size = len(deviations)
    best = deviations[0]
    fits = [(float(best[-1]), np.zeros(size, np.int64))]
    for _ in range(1, min(size // SHORTEST, MOST)):
        # [first, last]: the best fit of the values before ``first``, plus one segment from there to ``last``.
        extended = np.concatenate([[np.inf], best[:-1]])[:, None] + deviations
        starts = np.argmin(extended, axis=0)
        best = np.min(extended, axis=0)
        fits.append((float(best[-1]), starts))
    return fits
