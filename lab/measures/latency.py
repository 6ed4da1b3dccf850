"""Latencies of a run: the times of its warm turns, quantiles with intervals, and paired ratios of arms.

Every figure and rule on the latency of a run comes from here. Work that arms share is charged to each of them
(:mod:`lab.retrieval.stage_timer`, :mod:`lab.replay.guarded`), so a turn is the sum of its stages. The first recall
point of a conversation is left out, because it includes one-time work, and so are turns in which the arm did not
search: it skipped them or failed.

The interval of a quantile lies between two order statistics, because the number of samples below the true quantile is
binomial for any distribution (David and Nagaraja, Order Statistics, section 7.1). Turns are assumed to be independent.
If n is too small for an interval, no quantile is reported either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.base.columns import codes_of, numbers_of
from lab.measures.model import TOTAL
from lab.replay.guarded import WHOLE
from lab.retrieval.stage_timer import SEARCH
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

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


# A turn with a search has one of these stages.
LOOKED = {SEARCH, WHOLE}


class Stage(NamedTuple):
    """The time of a stage of an arm over its warm turns; ``total`` is the whole turn."""

    arm: str
    stage: str
    spent: Spent


def stages(run: RunDirectory) -> list[Stage]:
    """Return every stage of every arm, ``total`` last; empty if the run has no timings."""
    times = warm_times(run)
    return [
        Stage(arm, stage, spent_of(times[arm][stage]))
        for arm in run.arms
        for stage in sorted(times.get(arm, ()), key=lambda name: (name == TOTAL, name))
    ]


def warm_times(run: RunDirectory) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of the warm turns by arm and stage, turns in order; an arm without any is left out."""
    import numpy as np

    times: dict[str, dict[str, list[float]]] = {}
    for conversation in run.conversations:
        table = run.read_latency(conversation, ("arm", "turn", "stage", "ns", "cold"), ("arm", "turn", "stage"))
        if table is None:
            continue
        for arm, by_stage in _booked(table).items():
            searched = ~np.isnan([by_stage[stage] for stage in by_stage if stage in LOOKED]).all(axis=0)
            if not searched.any():
                continue
            total = np.nansum(list(by_stage.values()), axis=0)
            for stage, spent in {TOTAL: total, **by_stage}.items():
                has_value = searched & ~np.isnan(spent)
                if not has_value.any():
                    continue
                times.setdefault(arm, {}).setdefault(stage, []).extend((spent[has_value] / NS_PER_MS).tolist())
    return times


def _booked(table: pa.Table) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return nanoseconds by arm and stage, one value per warm turn of the conversation, NaN if there is none."""
    import numpy as np

    (arm, arms), (turn, turns), (stage, names) = (codes_of(table[name]) for name in ("arm", "turn", "stage"))
    spent, warm = numbers_of(table["ns"]).astype(np.float64), ~numbers_of(table["cold"]).astype(bool)
    grid = np.full((len(arms), len(names), len(turns)), np.nan)
    grid[arm[warm], stage[warm], turn[warm]] = spent[warm]
    booked = {
        name or "": {step or "": grid[number, column] for column, step in enumerate(names[:-1])}
        for number, name in enumerate(arms[:-1])
    }
    return {name: by_stage for name, by_stage in booked.items() if LOOKED & by_stage.keys()}
