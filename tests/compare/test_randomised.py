"""The randomisation test over drawn orders: equal to a count by hand, and right as often as it promises."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
import pytest

from lab.compare.randomised import LEVEL, carry_over, drawn, effect, orders


def by_hand(values: list[float], order: tuple[bool, ...], shift: float) -> float:
    """Return the two-sided p of a constant difference, counted order by order."""
    rest = [value - shift * switched for value, switched in zip(values, order, strict=True)]
    half = len(values) // 2

    def difference(switched: set[int]) -> float:
        return (sum(rest[n] for n in switched) - sum(rest[n] for n in range(len(rest)) if n not in switched)) / half

    own = abs(difference({n for n, one in enumerate(order) if one}))
    all_orders = [abs(difference(set(one))) for one in combinations(range(len(values)), half)]
    return sum(one >= own - 1e-9 for one in all_orders) / len(all_orders)


@pytest.mark.parametrize("seed", range(5))
def test_p_value_and_interval_equal_a_count_by_hand(seed: int) -> None:
    made = random.Random(seed)
    order, values = drawn(8, seed), [made.gauss(0, 1) for _ in range(8)]
    found = effect(values, order)
    assert found.p == pytest.approx(by_hand(values, order, 0.0))
    inside, outside = 1e-6, -1e-6
    for end, sign in ((found.low, 1), (found.high, -1)):
        assert by_hand(values, order, end + sign * inside) > LEVEL
        assert by_hand(values, order, end + sign * outside) <= LEVEL


def test_every_order_has_half_of_the_blocks_and_seeds_draw_all_of_them() -> None:
    table = orders(8)
    assert table.shape == (70, 8)
    assert (table.sum(1) == 4).all()
    assert len({drawn(8, seed) for seed in range(2000)}) == 70


def test_a_constant_difference_is_found_and_the_smallest_p_is_one_order_of_all() -> None:
    order = drawn(8, 3)
    found = effect([5.0 + 2.0 * switched for switched in order], order)
    assert found.difference == pytest.approx(2.0)
    assert found.p_higher == pytest.approx(1 / 70)
    assert found.low == pytest.approx(2.0)


def test_intervals_hold_under_a_trend_that_a_comparison_of_halves_would_take_for_a_difference() -> None:
    kept = rejected = 0
    for seed in range(400):
        order = drawn(8, seed)
        values = np.arange(8) + np.random.default_rng(seed).normal(size=8)
        kept += effect(list(values + 0.5 * np.array(order)), order).low <= 0.5
        rejected += effect(list(values), order).p <= LEVEL
    assert kept / 400 >= 0.95
    assert rejected / 400 <= 0.07


def test_what_a_block_leaves_to_the_next_is_found() -> None:
    order = drawn(16, 5)
    left = [3.0 * (number > 0 and order[number - 1]) for number in range(16)]
    found = carry_over(left, order)
    assert found.low > 0.5
    assert carry_over([0.0] * 16, order).difference == pytest.approx(0.0)
