"""Intervals and tests: against brute force, closed forms and simulated data without any effect."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from lab.compare.statistics import (
    EXACT_UP_TO,
    LEAST_CLUSTERS,
    Estimate,
    clipped,
    clustered,
    holm,
    is_shown,
    sign_flip,
    sign_flips,
    smallest_p,
    t_quantile,
)


def _by_hand(sums: list[float]) -> float:
    """Enumerate every assignment of signs."""
    observed = abs(math.fsum(sums))
    extreme = total = 0
    for signs in itertools.product((1, -1), repeat=len(sums)):
        total += 1
        extreme += abs(math.fsum(sign * value for sign, value in zip(signs, sums, strict=True))) >= observed - 1e-9
    return extreme / total


@pytest.mark.parametrize("clusters", range(1, 11))
def test_sign_flip_agrees_with_brute_force(clusters: int) -> None:
    source = random.Random(clusters)
    for _ in range(5):
        # Whole numbers and tenths make ties, where a strict inequality or rounding would show.
        sums = [source.choice([source.randint(-3, 3), source.randint(-9, 9) / 10]) for _ in range(clusters)]
        assert sign_flip(sums) == pytest.approx(_by_hand(sums), abs=1e-12), sums


@pytest.mark.parametrize("clusters", [1, 2, 5, 6, 10, EXACT_UP_TO])
@pytest.mark.parametrize("sign", [1, -1])
def test_sign_flip_of_one_sign_gives_the_smallest_p(clusters: int, sign: int) -> None:
    assert sign_flip([sign * (1 + number / 7) for number in range(clusters)]) == 2 / 2**clusters


@pytest.mark.parametrize(("clusters", "expected"), [(1, 1), (6, 3 * 2 / 2**6), (5_000, 0)])
def test_smallest_p_of_any_number_of_clusters_is_adjusted(clusters: int, expected: float) -> None:
    assert smallest_p(clusters, 3) == expected


@pytest.mark.parametrize("clusters", [1, 4, 9, 40])
def test_sign_flip_one_sided_tests_positive_sums(clusters: int) -> None:
    draw = random.Random(clusters)
    sums = [draw.gauss(0.3, 1) for _ in range(clusters)]
    above, below = (sign_flip([side * value for value in sums], one_sided=True) for side in (1, -1))
    if clusters <= EXACT_UP_TO:
        every = itertools.product((1, -1), repeat=clusters)
        drawn = [math.fsum(sign * value for sign, value in zip(signs, sums, strict=True)) for signs in every]
        assert above == statistics.mean(one >= math.fsum(sums) - 1e-9 for one in drawn)
    assert 2 * min(above, below) == pytest.approx(sign_flip(sums), rel=0.1)
    assert above + below >= 1


def test_t_quantile_matches_scipy_stats() -> None:
    from scipy import stats

    for freedom in (1, 2, 5, 9, 39, 400):
        for share in (0.001, 0.05, 0.8, 0.975, 0.999):
            assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-12)


def test_sign_flip_counts_ties_despite_rounding() -> None:
    # 0.1 + 0.2 is not 0.3 in binary: the two signings that give 0 or .6 are ties of the sum or not, by rounding alone.
    assert sign_flip([0.1, 0.2, 0.3]) == 2 / 8
    assert sign_flip([0.1, 0.2, -0.3]) == 1.0


def test_sign_flip_of_zeros_is_one() -> None:
    assert sign_flip([0.0] * 6) == 1.0
    assert sign_flip([0.0] * 40) == 1.0


def test_sign_flip_ignores_order_and_direction() -> None:
    sums = [3.0, -1.0, 2.5, 0.5, -0.25, 4.0, 1.0]
    p = sign_flip(sums)
    assert p == sign_flip(sums[::-1]) == sign_flip([-value for value in sums])
    assert 0 < p < 1


def test_sign_flip_of_many_clusters_is_seeded_and_never_zero() -> None:
    strong = [1.0 + number / 50 for number in range(40)]
    weak = [(-1.0) ** number * (1 + number / 40) + 0.2 for number in range(40)]
    assert sign_flip(strong) == 1 / 100_000
    assert sign_flip(weak) == sign_flip(weak)
    assert sign_flip(weak, seed=1) != sign_flip(weak, seed=2)
    assert sign_flip(weak, seed=1) == pytest.approx(sign_flip(weak, seed=2), abs=0.01)


def test_sign_flip_drawn_and_exact_agree() -> None:
    sums = [1.5, -0.5, 2.0, 0.7, -1.1, 0.9, 0.3, -0.2, 1.2, 0.6, -0.8, 0.4, 1.0, -0.6, 0.8, 0.1]
    # A cluster without any difference changes no sum, so the p of 17 drawn is that of 16 counted.
    assert sign_flip([*sums, 0.0]) == pytest.approx(sign_flip(sums), abs=0.006)


@pytest.mark.parametrize("clusters", [8, 30])
def test_sign_flip_false_positive_rate_is_nominal(clusters: int) -> None:
    source = np.random.default_rng(11)
    trials = 1000 if clusters <= EXACT_UP_TO else 60
    found = [sign_flip(source.normal(size=clusters).tolist()) for _ in range(trials)]
    rate = sum(p <= 0.05 for p in found) / trials
    slack = 3.5 * math.sqrt(0.05 * 0.95 / trials)
    # p of 8 clusters comes in steps of 1/128, so the true rate is 6/128.
    nominal = 6 / 128 if clusters == 8 else 0.05
    assert nominal - slack <= rate <= nominal + slack
    assert statistics.fmean(found) == pytest.approx(0.5, abs=0.15)


PAIR = {"long": [1.0, 1.0, 1.0], "short": [0.0]}


def test_clustered_equal_sizes_give_the_t_interval() -> None:
    from scipy import stats

    groups = {"a": [0.2, 0.4, 0.0], "b": [1.0, 0.4, 0.7], "c": [-0.2, 0.0, 0.5], "d": [0.3, 0.9, 0.6]}
    groups |= {"e": [0.1, 0.3, 0.2], "f": [0.6, -0.4, 0.1]}
    means = [statistics.fmean(values) for values in groups.values()]
    error = statistics.stdev(means) / math.sqrt(6)
    low, high = stats.t.interval(0.95, 5, loc=statistics.fmean(means), scale=error)
    found = clustered(groups)
    assert (found.mean, found.low, found.high, found.standard_error) == pytest.approx(
        (statistics.fmean(means), low, high, error)
    )
    flat = [value for values in groups.values() for value in values]
    assert found.design_effect == pytest.approx(error**2 / (statistics.variance(flat) / 18))
    assert found.detectable == pytest.approx((stats.t.ppf(0.975, 5) + stats.t.ppf(0.8, 5)) * error)


def test_clustered_few_clusters_have_no_interval() -> None:
    five = {str(number): [0.1 * number, 0.2] for number in range(5)}
    found = clustered(five)
    assert (found.low, found.high, found.detectable) == (None, None, None)
    assert found.standard_error is not None
    # The smallest two-sided p of five sign flips is 2 / 32, of six 2 / 64.
    assert sign_flip([1.0] * 5) > 0.05 > sign_flip([1.0] * LEAST_CLUSTERS)
    assert clustered(five | {"5": [0.2, 0.2]}).low is not None


def test_clipped_interval_ends_at_the_range() -> None:
    wide = Estimate(0.9, 0.4, 1.4, 0.2, 1.0, 0.6)
    assert clipped(wide, 1.0) == wide._replace(high=1.0)
    assert clipped(wide._replace(mean=-0.9, low=-1.4, high=-0.4), 1.0).low == -1.0
    assert clipped(wide, None) == wide


def test_is_shown_needs_interval_and_p() -> None:
    apart = Estimate(0.1, 0.02, 0.18, 0.04, 1.0, 0.1)
    assert is_shown(apart, 0.05)
    assert not is_shown(apart, 0.06)
    assert not is_shown(apart._replace(low=-0.01), 0.01)
    assert not is_shown(Estimate(0.1, None, None, 0.01, 1.0, None), 0.001)


def test_clustered_weights_by_cluster_size() -> None:
    # n 4, mean .75; residual sums 3 - 3*.75 = .75 and 0 - .75 = -.75; variance 2/1 * (2 * .5625) / 16.
    from scipy import stats

    found = clustered({"long": [1.0, 1.0, 1.0], "short": [0.0]})
    assert found.mean == 0.75
    assert found.standard_error == pytest.approx(math.sqrt(2 * 2 * 0.5625 / 16))
    # Three times as many: n 12, variance 6/5 * (6 * .5625) / 144.
    found = clustered({f"{name}{number}": values for number in range(3) for name, values in PAIR.items()})
    assert found.low == pytest.approx(0.75 - stats.t.ppf(0.975, 5) * math.sqrt(6 / 5 * 6 * 0.5625 / 144))


def test_clustered_single_cluster_has_only_a_mean() -> None:
    assert clustered({"only": [1.0, 0.0, 0.5]}) == Estimate(0.5, None, None, None, None, None)


def test_clustered_zeros_have_an_empty_interval() -> None:
    groups = {name: [0.0, 0.0] for name in "abcde"} | {"f": [0.0]}
    assert clustered(groups) == Estimate(0.0, 0.0, 0.0, 0.0, None, 0.0)


def test_clustered_correlation_widens_the_interval() -> None:
    together = clustered({"a": [1.0] * 10, "b": [0.0] * 10, "c": [1.0] * 10})
    apart = clustered({name: [1.0, 1.0, 0.0] * 3 + [1.0, 0.0] for name in "abc"})
    assert together.design_effect is not None
    assert apart.design_effect is not None
    assert together.design_effect > 5 > 1 > apart.design_effect


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ({}, {}),
        ({"a": 0.03}, {"a": 0.03}),
        # Sorted .01 .02 .03 .04: times 4, 3, 2, 1, never falling.
        ({"d": 0.04, "a": 0.01, "c": 0.03, "b": 0.02}, {"a": 0.04, "b": 0.06, "c": 0.06, "d": 0.06}),
        ({"a": 0.001, "b": 0.04, "c": 0.5}, {"a": 0.003, "b": 0.08, "c": 0.5}),
        ({"a": 0.6, "b": 0.9}, {"a": 1.0, "b": 1.0}),
        ({"a": 0.02, "b": 0.02}, {"a": 0.04, "b": 0.04}),
    ],
)
def test_holm_steps_down(p_values: dict[str, float], expected: dict[str, float]) -> None:
    assert holm(p_values) == pytest.approx(expected)


@pytest.mark.parametrize("one_sided", [False, True])
def test_sign_flips_equals_sign_flip(one_sided: bool) -> None:
    draw = np.random.default_rng(7)
    measures = [(draw.standard_normal(size) + 0.2).tolist() for size in (3, 40, 17, 40, 3, 16)]
    together = sign_flips(measures, one_sided=one_sided)
    assert together == [sign_flip(one, one_sided=one_sided) for one in measures]
    # The last, shorter block of draws counts, too.
    signs = np.random.default_rng(0).integers(0, 2, (99_999, 40), dtype=np.int8) * 2.0 - 1.0
    drawn, seen = signs @ np.array(measures[1]), sum(measures[1])
    as_far = np.count_nonzero((drawn if one_sided else np.abs(drawn)) >= (seen if one_sided else abs(seen)))
    assert together[1] == (1 + as_far) / 100_000
