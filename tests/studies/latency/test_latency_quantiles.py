"""Order-statistic intervals against the binomial distribution of scipy, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest

from lab.measures.latency import QUANTILES, interval_ranks, least_n, paired_ratio, quantile
from lab.studies.latency.bench import Sample
from lab.studies.latency.summary import _ratios
from lab.studies.latency.work import BLOCK, Measured

SHARES = tuple(QUANTILES.values())


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("n", [1, 5, 6, 50, 72, 73, 100, 367, 368, 400, 2_000])
def test_interval_ranks_are_the_narrowest(n: int, share: float) -> None:
    from scipy.stats import binom

    found = interval_ranks(n, share)
    lows = [rank for rank in range(1, n + 1) if binom.cdf(rank - 1, n, share) <= 0.025]
    highs = [rank for rank in range(1, n + 1) if binom.sf(rank - 1, n, share) <= 0.025]
    assert found == ((max(lows), min(highs)) if lows and highs else None)
    if found:
        low, high = found
        assert low < high
        assert binom.cdf(high - 1, n, share) - binom.cdf(low - 1, n, share) >= 0.95


def test_interval_ranks_of_the_median_of_ten() -> None:
    assert interval_ranks(10, 0.5) == (2, 9)


@pytest.mark.parametrize("share", SHARES)
def test_quantile_with_small_n_is_none(share: float) -> None:
    least = least_n(share)
    assert interval_ranks(least, share) is not None
    assert interval_ranks(least - 1, share) is None
    assert quantile([1.0] * (least - 1), share) is None


def test_least_n_of_each_quantile() -> None:
    assert [least_n(share) for share in SHARES] == [6, 72, 368]


@pytest.mark.parametrize(("share", "n"), [(0.5, 20), (0.95, 100), (0.99, 400)])
def test_quantile_interval_covers_a_skewed_distribution(share: float, n: int) -> None:
    from scipy.stats import binom, norm

    random = np.random.default_rng(11)
    truth = float(np.exp(norm.ppf(share)))
    draws = np.sort(random.lognormal(size=(4_000, n)), axis=1)
    low, high = interval_ranks(n, share) or (0, 0)
    covered = np.mean((draws[:, low - 1] <= truth) & (truth <= draws[:, high - 1]))
    # Four standard errors of a proportion below the level.
    assert covered >= 0.95 - 4 * np.sqrt(0.05 * 0.95 / 4_000)
    assert covered == pytest.approx(binom.cdf(high - 1, n, share) - binom.cdf(low - 1, n, share), abs=0.015)


def test_quantile_is_one_of_the_samples() -> None:
    samples = [float(value) for value in range(100, 0, -1)]
    assert quantile(samples, 0.5) == (50.0, 40.0, 61.0)
    assert (quantile(samples, 0.95) or (0,))[0] == 95.0


def test_paired_ratio_uses_complete_blocks() -> None:
    baseline = {block: [1.0, 3.0] for block in range(8)}
    candidate = {block: [4.0, 4.0 + block] for block in range(1, 8)} | {0: [9.0], 9: [1.0, 1.0]}
    ratio, blocks = paired_ratio(candidate, baseline)
    assert blocks == 7
    assert ratio == (3.0, 2.25, 3.75)
    assert paired_ratio({0: [2.0, 2.0]}, baseline) == (None, 1)


def test_ratios_leave_out_blocks_with_a_skipped_turn() -> None:
    """Blocks with a missing turn are left out as well, because the arms had different turns."""

    def sample(arm: str, turn: int, ms: int, *, passed: bool = False, stage: str = "recall") -> Sample:
        return Sample("warm", "lancedb", arm, 10, turn, 0, stage, ms * 10**6, passed)

    turns = 2 * BLOCK * 20 + 1
    samples = [sample(arm, turn, ms) for turn in range(turns) for arm, ms in (("old", 2), ("new", 3))]
    samples[2 * BLOCK + 1] = sample("new", BLOCK, 1, passed=True)
    samples.append(sample("new", 0, 900, stage="search"))
    (ratio,) = _ratios(Measured(samples, {"memories": 10}))
    assert (ratio["baseline"], ratio["candidate"], ratio["blocks"]) == ("old", "new", 2 * 20 - 1)
    assert ratio["ratio"] == {"value": 1.5, "low": 1.5, "high": 1.5}
