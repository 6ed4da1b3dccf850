"""Statistics of paired comparisons, and the power that a golden set or a comparison has.

The conversation is the unit of inference, because probes of one conversation are not independent.

Methods: a t interval with clustered standard errors of a ratio estimator (Miller, arXiv 2411.00640), a sign-flip
randomisation test by cluster (Smucker, Allan and Carterette, CIKM 2007), and Holm's step-down correction.

Power: one calculation is behind every minimum detectable effect and every "more conversations". A test at one-sided
level ``level`` over C conversations with standard error ``error`` detects a true difference of
``(t(1 - level) + t(power)) * error`` with probability ``power``; t has C - 1 degrees of freedom. Comparisons and golden
sets use level .025, which is a two-sided test at 5 %; gates use the level of their policy.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.golden.model import GoldenSet

if TYPE_CHECKING:
    import numpy as np

POWER = 0.8
TWO_SIDED = 0.025
# Beyond this, "more conversations like these" is no advice.
MOST_CONVERSATIONS = 10_000


def detectable(error: float, conversations: int, level: float = TWO_SIDED) -> float:
    """Return the minimum detectable effect of a standard error over at least two conversations."""
    return quantiles(conversations, level) * error


def quantiles(conversations: int, level: float = TWO_SIDED) -> float:
    """Return the minimum detectable effect in units of the standard error."""
    return t_quantile(1 - level, conversations - 1) + t_quantile(POWER, conversations - 1)


def design_error(share: float, design_effect: float, n: int) -> float:
    """Return the standard error of a paired difference of hits before it is measured.

    A share of the ``n`` probes differs, by 1 or -1, and correlation within conversations multiplies the variance by
    ``design_effect``.
    """
    return math.sqrt(share * design_effect / n)


def conversations_needed(effect: float, error: float, conversations: int, level: float, least: int = 2) -> int | None:
    """Return how many conversations like these detect a true difference of ``effect`` with 80 % power.

    ``error`` is the standard error over ``conversations``; it shrinks with the square root of their number. ``least``
    is the smallest number at which a test can be significant at all. None means more than any study has.
    """
    few, enough = least - 1, least
    while not _detects(effect, error, conversations, level, enough):
        few, enough = enough, enough * 2
        if enough > MOST_CONVERSATIONS:
            return None
    between = range(few + 1, enough)
    return few + 1 + bisect_left(between, True, key=lambda n: _detects(effect, error, conversations, level, n))


def _detects(effect: float, error: float, conversations: int, level: float, planned: int) -> bool:
    return detectable(error * math.sqrt(conversations / planned), planned, level) <= abs(effect)


def t_quantile(share: float, freedom: int) -> float:
    """Return a quantile of Student's t distribution."""
    # scipy.stats gives the same value and takes twice as long to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, share))


LEVEL = 0.05
EXACT_UP_TO = 16
# With fewer clusters no two-sided sign-flip test can reach 5 %: the smallest p of five is 2 / 2**5 = .06.
LEAST_CLUSTERS = 6
DRAWS = 99_999
BLOCK = 4_096


class Estimate(NamedTuple):
    """A mean difference with clustered uncertainty.

    ``low`` and ``high`` bound the 95 % interval. They and ``detectable`` are None below :data:`LEAST_CLUSTERS`, where
    no test could confirm them. All fields but the mean are None for a single cluster.
    """

    mean: float
    low: float | None
    high: float | None
    standard_error: float | None
    design_effect: float | None
    detectable: float | None


def clustered(differences: Mapping[str, Sequence[float]]) -> Estimate:
    """Return the mean of all differences with its clustered uncertainty; ``differences`` maps a cluster to its values.

    The variance is ``C/(C-1) * sum((S_c - n_c * mean)^2) / n^2`` over C clusters, with t of C - 1 degrees of freedom.
    ``design_effect`` is that variance divided by the one of independent differences; it is below 1 if differences
    within a cluster cancel out. ``detectable`` is the minimum detectable effect (:mod:`lab.compare.statistics`).
    """
    sizes = [len(values) for values in differences.values()]
    sums = [math.fsum(values) for values in differences.values()]
    n, clusters = sum(sizes), len(sizes)
    mean = math.fsum(sums) / n
    if clusters < 2:
        return Estimate(mean, None, None, None, None, None)
    variance = (
        clusters
        / (clusters - 1)
        * math.fsum((s - size * mean) ** 2 for s, size in zip(sums, sizes, strict=True))
        / n**2
    )
    error = math.sqrt(variance)
    half = t_quantile(0.975, clusters - 1) * error
    independent = math.fsum((value - mean) ** 2 for values in differences.values() for value in values) / (n - 1) / n
    effect = variance / independent if independent > 0 else None
    if clusters < LEAST_CLUSTERS:
        return Estimate(mean, None, None, error, effect, None)
    return Estimate(mean, mean - half, mean + half, error, effect, detectable(error, clusters))


def clipped(estimate: Estimate, widest: float | None) -> Estimate:
    """Return an estimate whose interval ends at the largest possible difference, ``widest``; None means no bound."""
    if widest is None or estimate.low is None or estimate.high is None:
        return estimate
    return estimate._replace(low=max(estimate.low, -widest), high=min(estimate.high, widest))


def sign_flip(sums: Sequence[float], seed: int = 0, *, one_sided: bool = False) -> float:
    """Return the p-value of the total of cluster sums under random signs.

    Exact up to 16 clusters, else from 99,999 seeded draws; never 0. ``one_sided`` tests against totals above 0 only.
    """
    return sign_flips([sums], seed, one_sided=one_sided)[0]


def sign_flips(measures: Sequence[Sequence[float]], seed: int = 0, *, one_sided: bool = False) -> list[float]:
    """Return the p-value of each of several lists of cluster sums, as :func:`sign_flip` gives it.

    Lists with the same number of clusters share their draws and are computed together.
    """
    import numpy as np

    results = [math.nan] * len(measures)
    by_size: dict[int, list[int]] = {}
    for index, sums in enumerate(measures):
        by_size.setdefault(len(sums), []).append(index)
    for clusters, indices in by_size.items():
        values = np.array([measures[index] for index in indices], np.float64).T
        observed = values.sum(axis=0) if one_sided else np.abs(values.sum(axis=0))
        # The tolerance makes a tie with the observed sum count as one in spite of rounding.
        reach = observed - 1e-12 * np.maximum(1.0, np.abs(values).sum(axis=0))
        exact = clusters <= EXACT_UP_TO
        signs = all_signs(clusters) if exact else drawn_signs(clusters, seed)
        extreme = np.zeros(len(indices), np.int64)
        # In blocks: as floats, the signs of a thousand clusters would take 800 MB.
        for start in range(0, len(signs), BLOCK):
            drawn = signs[start : start + BLOCK].astype(np.float64) @ values
            extreme += np.count_nonzero((drawn if one_sided else np.abs(drawn)) >= reach, axis=0)
        p_values = extreme / len(signs) if exact else (1 + extreme) / (DRAWS + 1)
        for index, p in zip(indices, p_values.tolist(), strict=True):
            results[index] = p
    return results


# Every measure of a comparison has the same clusters and shares the draws.
@lru_cache(maxsize=2)
def drawn_signs(clusters: int, seed: int) -> np.ndarray:
    """Return :data:`DRAWS` random combinations of signs, one per row."""
    import numpy as np

    drawn: np.ndarray = np.random.default_rng(seed).integers(0, 2, (DRAWS, clusters), dtype=np.int8)
    drawn *= 2
    drawn -= 1
    return drawn


@lru_cache(maxsize=2)
def all_signs(clusters: int) -> np.ndarray:
    """Return every combination of signs, one per row."""
    import numpy as np

    bits = np.arange(2**clusters)[:, None] >> np.arange(clusters)
    return (1 - 2 * (bits & 1)).astype(np.int8)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return the p-values of one family, adjusted by Holm's step-down method."""
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, (name, p) in enumerate(sorted(p_values.items(), key=lambda pair: (pair[1], pair[0]))):
        highest = max(highest, min(1.0, p * (len(p_values) - position)))
        adjusted[name] = highest
    return adjusted


def smallest_p(clusters: int, family: int) -> float:
    """Return the smallest Holm-adjusted p of an exact sign-flip test over ``clusters`` in a family of measures."""
    return min(1.0, family * 2.0 ** (1 - clusters))


def is_shown(estimate: Estimate, p: float) -> bool:
    """Return whether a difference is shown: its 95 % interval excludes 0, and its p is at most 5 %.

    The one rule of every comparison, report and figure; ``p`` is the adjusted one of a primary measure. A p of NaN,
    where none was computed, leaves the interval to decide.
    """
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and not low <= 0 <= high and not p > LEVEL


# Assumptions, because no two policies have been measured yet: the intra-cluster correlation of the probes of one
# conversation, and the shares of probes whose hit changes for which the effect is computed.
INTRA_CLUSTER_CORRELATION = 0.05
CHANGED_SHARES = (0.1, 0.25, 0.4)


@dataclass(frozen=True, slots=True)
class Power:
    """The statistical power of a golden set's design.

    ``probes`` counts the probes with relevant memories. ``detectable`` maps a share of probes whose hit changes to the
    minimum detectable effect: the true difference in hit rate that a two-sided test at 5 % detects with 80 % power. It
    is empty below six conversations, where no test can reach 5 %. ``design_effect`` is the factor by which correlation
    within conversations inflates the variance.
    """

    probes: int
    conversations: int
    design_effect: float | None
    detectable: dict[float, float]

    def as_json(self) -> dict[str, Any]:
        """Return plain values for JSON; shares become keys in percent."""
        by_percent = {f"{share:.0%}": effect for share, effect in self.detectable.items()}
        return asdict(self) | {"alike": INTRA_CLUSTER_CORRELATION, "detectable": by_percent}


def power(golden: GoldenSet) -> Power:
    """Return the power of a golden set's design; see :func:`power_of`."""
    return power_of(Counter(probe.conversation for probe in golden.probes if probe.relevant))


def power_of(sizes: Mapping[str, int]) -> Power:
    """Return the power of a design with so many probes with relevant memories in each conversation.

    For ``n`` probes in ``C`` conversations of sizes ``m``, with differences of -1, 0 or 1 per probe and a share ``d``
    of them not 0, the standard error is ``sqrt(d deff / n)`` with Kish's design effect
    ``deff = 1 + (sum m² / n - 1) INTRA_CLUSTER_CORRELATION``; :mod:`lab.compare.statistics` has the rest.
    """
    n, conversations = sum(sizes.values()), len(sizes)
    if conversations < LEAST_CLUSTERS:
        return Power(n, conversations, None, {})
    effect = 1 + (sum(size * size for size in sizes.values()) / n - 1) * INTRA_CLUSTER_CORRELATION
    effects = {share: detectable(design_error(share, effect, n), conversations) for share in CHANGED_SHARES}
    return Power(n, conversations, effect, effects)
