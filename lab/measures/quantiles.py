"""Quantiles of latencies with distribution-free intervals, and paired ratios of arms.

The interval of a quantile lies between two order statistics, because the number of samples below the true quantile is
binomial for any distribution (David and Nagaraja, Order Statistics, section 7.1). Turns are assumed to be independent.
If n is too small for an interval, no quantile is reported either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

LEVEL = 0.95
NS_PER_MS = 1e6
QUANTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


class Quantile(NamedTuple):
    """A quantile and the ends of its interval, in the unit of the samples."""

    value: float
    low: float
    high: float


class Spent(NamedTuple):
    """The number of times, their mean, and quantiles, in milliseconds; a quantile is None if n is too small for it."""

    n: int
    mean: float | None
    p50: Quantile | None
    p95: Quantile | None
    p99: Quantile | None

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain = {name: one._asdict() if (one := getattr(self, name)) else None for name in QUANTILES}
        return {"n": self.n, "mean": self.mean, **plain}


# Cached, because all stages of an arm have the same number of samples.
@lru_cache(maxsize=64)
def interval_ranks(n: int, share: float, level: float = LEVEL) -> tuple[int, int] | None:
    """Return the ranks (from 1) of the samples that enclose the quantile ``share`` of ``n`` with at least ``level``.

    Each end has an error probability of at most ``(1 - level) / 2``; the interval is the narrowest such one. None if n
    is too small.
    """
    rest = (1.0 - level) / 2.0
    low, high = 0, n + 1
    below = 0.0
    for count, weight in enumerate(_binomial(n, share)):
        # P(B <= count - 1) is the error probability of the lower rank ``count``.
        if count and below <= rest:
            low = count
        below += weight
    above = 0.0
    for count in range(n, 0, -1):
        # P(B >= count) is the error probability of the upper rank ``count``.
        above += _weight(n, count, share)
        if above > rest:
            break
        high = count
    return (low, high) if low >= 1 and high <= n else None


def quantile(samples: Sequence[float], share: float, level: float = LEVEL) -> Quantile | None:
    """Return the sample of rank ``ceil(n * share)`` with its interval; None if n is too small for an interval."""
    ranks = interval_ranks(len(samples), share, level)
    if ranks is None:
        return None
    ordered = sorted(samples)
    middle = max(1, math.ceil(len(ordered) * share - 1e-9))
    return Quantile(ordered[middle - 1], ordered[ranks[0] - 1], ordered[ranks[1] - 1])


def spent_of(ms: Sequence[float]) -> Spent:
    """Return the summary of times in milliseconds."""
    mean = math.fsum(ms) / len(ms) if ms else None
    p50, p95, p99 = (quantile(ms, share) for share in QUANTILES.values())
    return Spent(len(ms), mean, p50, p95, p99)


def least_n(share: float, level: float = LEVEL) -> int:
    """Return the smallest n for which the interval of a quantile exists."""
    rest = (1.0 - level) / 2.0
    need = max(math.log(rest) / math.log(share), math.log(rest) / math.log(1.0 - share))
    return math.ceil(need - 1e-9)


def paired_ratio(
    candidate: Mapping[int, Sequence[float]], baseline: Mapping[int, Sequence[float]]
) -> tuple[Quantile | None, int]:
    """Return the median over blocks of the ratio candidate / baseline of block sums, and the number of common blocks.

    Within a block both arms answered the same turns at nearly the same time, each as often first as last.
    """
    shared = [block for block in candidate if len(candidate[block]) == len(baseline.get(block, ()))]
    ratios = [math.fsum(candidate[block]) / math.fsum(baseline[block]) for block in shared]
    return quantile(ratios, 0.5), len(ratios)


def _binomial(n: int, share: float) -> list[float]:
    return [_weight(n, count, share) for count in range(n + 1)]


def _weight(n: int, count: int, share: float) -> float:
    """Return P(B = count) for a binomial B of ``n`` draws, computed with logarithms to avoid overflow."""
    ways = math.lgamma(n + 1) - math.lgamma(count + 1) - math.lgamma(n - count + 1)
    return math.exp(ways + count * math.log(share) + (n - count) * math.log1p(-share))
