"""Tests that may be looked at after every observation: e-values, an e-detector, and bets on a mean.

An *e-value* is a number that has a mean of at most 1 under the hypothesis. A product of e-values, each of the next
observation given all before it, reaches 1 / level with at most the probability ``level``, whenever one looks (Ville's
inequality). The hypothesis is only that each observation's mean, given everything before it, is on one side of a limit:
no distribution and no independence is assumed. So if an observation is the share of a session, what happens within a
session may depend on itself in any way.

* :func:`factor` is the likelihood ratio of a coin, which stays an e-value for any observation from 0 to 1 (Waudby-Smith
  and Ramdas, *Estimating means of bounded random variables by betting*, arXiv 2010.09686).
* :class:`Detector` is the e-detector of a watch that never ends (Shin, Ramdas and Rinaldo, *E-detectors: a
  nonparametric framework for sequential change detection*, arXiv 2203.03532). With every observation its evidence M
  becomes ``(M + 1) * factor``, so the mean number of observations until a false alarm is at least the threshold.
* :func:`evidence` is that of a window that ends: a mean of products with fixed bets. Against a mean that is too high,
  the bets also begin at each later observation, with weights that sum to 1: damage that begins partway is found, and
  the promise holds all the same. For a low mean they begin at the first one, so that what healed is not forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

# More evidence says nothing new; a float must not overflow.
_MOST = 1e30
# The means for which the bets grow fastest, as shares of the way from the limit to 1, with equal weights.
_ABOVE = (0.05, 0.2, 0.5, 0.9)
# The same for a mean below the limit, as shares of the limit, with their weights: most engines have no failure at all.
_BELOW = {0.0: 0.6, 0.3: 0.25, 0.6: 0.15}
# The share of the bets on a high mean that begin at the first observation.
_AT_ONCE = 0.5
# Limits at which bounds are computed, and observations ahead that are tried.
_GRID, _AHEAD = 200, 400


def factor(value: Any, limit: Any, alternative: Any) -> Any:
    """Return the e-value of an observation from 0 to 1 against a mean of at most ``limit``, or of at least ``limit``.

    It grows fastest if the mean is ``alternative``. An alternative above the limit tests a mean of at most ``limit``,
    one below it a mean of at least ``limit``. All three may be arrays.
    """
    return value * alternative / limit + (1 - value) * (1 - alternative) / (1 - limit)


@dataclass(slots=True)
class Detector:
    """The evidence that the mean of a stream of observations from 0 to 1 has risen above a limit."""

    limit: float
    alternative: float
    threshold: float
    evidence: float = 0.0
    observations: int = 0

    def add(self, value: float) -> bool:
        """Add an observation; return whether the evidence has reached the threshold."""
        self.observations += 1
        self.evidence = min((self.evidence + 1) * factor(value, self.limit, self.alternative), _MOST)
        return self.raised

    @property
    def raised(self) -> bool:
        """Whether the evidence is at least the threshold."""
        return self.evidence >= self.threshold


def _steps(values: Iterable[Any], limit: Any, *, above: bool) -> Iterator[Any]:
    """Yield the evidence after each value."""
    import numpy as np

    bets = [(limit + (1 - limit) * bet, 1 / len(_ABOVE)) for bet in _ABOVE]
    if not above:
        bets = [(limit * bet, weight) for bet, weight in _BELOW.items()]
    wealth: list[Any] = [0.0 * limit for _ in bets]
    ahead = 1.0
    for number, value in enumerate(values):
        begins = ahead
        if above:
            begins = _AT_ONCE if not number else (1 - _AT_ONCE) / (number * (number + 1))
        ahead -= begins
        wealth = [
            np.minimum((own + begins) * factor(value, limit, alternative), _MOST)
            for own, (alternative, _) in zip(wealth, bets, strict=True)
        ]
        yield ahead + sum(weight * own for own, (_, weight) in zip(wealth, bets, strict=True))


def evidence(values: ArrayLike, limit: ArrayLike, *, above: bool) -> NDArray[np.float64]:
    """Return the evidence after each observation that the mean is above the limit, or below it.

    ``values`` has the shape (observations,) or (observations, streams), with values from 0 to 1; ``limit``, between 0
    and 1, is one number or one for each stream. The result has as many rows as ``values``, and a column for each
    stream or limit.
    """
    import numpy as np

    given, edge = np.asarray(values, np.float64), np.asarray(limit, np.float64)
    shape = np.broadcast_shapes(given.shape[1:], edge.shape)
    found = np.empty((len(given), *shape))
    for number, step in enumerate(_steps(given, edge, above=above)):
        found[number] = step
    return found


def first_at(found: NDArray[np.float64], threshold: float) -> int | None:
    """Return the place from 1 at which evidence reaches a threshold first; None if it never does."""
    reached = (found >= threshold).nonzero()[0]
    return int(reached[0]) + 1 if len(reached) else None


def since(found: NDArray[np.float64], threshold: float) -> int | None:
    """Return the place from 1 since which evidence is at a threshold or above; None if it is below at the end."""
    below = (found < threshold).nonzero()[0]
    place = int(below[-1]) + 2 if len(below) else 1
    return place if place <= len(found) else None


def still_needed(
    values: Sequence[float], following: float, limit: float, threshold: float, *, above: bool
) -> int | None:
    """Return after how many more observations of one value the evidence reaches a threshold; None beyond 400."""
    steps = _steps(chain(values, repeat(following, _AHEAD)), limit, above=above)
    place = next((number for number, found in enumerate(steps, 1) if found >= threshold), None)
    return None if place is None else max(place - len(values), 0)


class Bounds(NamedTuple):
    """A confidence sequence: the lower and the upper bound after each observation."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def bounds(values: Sequence[float], level_low: float, level_high: float, limits: Sequence[float] = ()) -> Bounds:
    """Return bounds of the mean that hold together at every look, each with its own error level.

    A bound is the nearest of 200 limits, and of those in ``limits``, beyond which the mean is shown not to be. A lower
    bound stays; an upper one rises again if observations do.
    """
    import numpy as np

    grid = np.unique([*(np.arange(1, _GRID) / _GRID), *limits])
    given = np.asarray(values, np.float64)[:, None] * np.ones_like(grid)
    shown_above = np.maximum.accumulate(evidence(given, grid, above=True), axis=0) >= 1 / level_low
    shown_below = evidence(given, grid, above=False) >= 1 / level_high
    low = np.where(shown_above, grid, 0.0).max(axis=1, initial=0.0)
    high = np.where(shown_below, grid, 1.0).min(axis=1, initial=1.0)
    return Bounds(low, high)
