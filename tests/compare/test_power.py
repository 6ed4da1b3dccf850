"""Power: one calculation for comparisons, golden sets and gates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.compare.statistics import clustered, conversations_needed, design_error, detectable


@pytest.mark.parametrize(("conversations", "level"), [(6, 0.025), (20, 0.025), (24, 0.05)])
def test_detectable_is_the_sum_of_two_quantiles(conversations: int, level: float) -> None:
    from scipy import stats

    freedom = conversations - 1
    expected = (stats.t.ppf(1 - level, freedom) + stats.t.ppf(0.8, freedom)) * 0.02
    assert detectable(0.02, conversations, level) == pytest.approx(expected)


def test_detectable_matches_the_published_table() -> None:
    # 2.80 * sqrt(psi * deff / n), the limit of many conversations: n 1,000 and psi .10 give .028.
    assert detectable(design_error(0.10, 1.0, 1000), 100_000) == pytest.approx(0.028, abs=0.0005)
    assert design_error(0.10, 4.0, 1000) == pytest.approx(2 * design_error(0.10, 1.0, 1000))


def test_clustered_takes_its_effect_from_the_same_calculation() -> None:
    draw = np.random.default_rng(3)
    groups = {str(number): draw.normal(0, 1, 5).tolist() for number in range(9)}
    found = clustered(groups)
    assert found.standard_error is not None
    assert found.detectable == detectable(found.standard_error, 9)


def test_conversations_needed_inverts_detectable() -> None:
    error, now = 0.05, 12
    needed = conversations_needed(0.06, error, now, 0.05)
    assert needed is not None

    def at(conversations: int) -> float:
        return detectable(error * math.sqrt(now / conversations), conversations, 0.05)

    assert at(needed) <= 0.06 < at(needed - 1)
    assert conversations_needed(0.06, error, now, 0.05, least=needed + 5) == needed + 5
    assert conversations_needed(-0.06, error, now, 0.05) == needed
    assert conversations_needed(1e-6, error, now, 0.05) is None


def test_power_is_eighty_percent_at_the_detectable_effect() -> None:
    from scipy import stats

    draw = np.random.default_rng(5)
    conversations, trials = 20, 2000
    effect = detectable(1 / math.sqrt(conversations), conversations)
    means = draw.normal(effect, 1, (trials, conversations))
    error = means.std(axis=1, ddof=1) / math.sqrt(conversations)
    shown = means.mean(axis=1) / error > stats.t.ppf(0.975, conversations - 1)
    assert shown.mean() == pytest.approx(0.8, abs=0.04)
