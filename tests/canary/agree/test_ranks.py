"""Tests of overlap and Kendall's tau-b against values that can be checked by hand."""

from __future__ import annotations

import math

import pytest

from lab.canary.agree.agreement import overlap, ranks, tau_b


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("abc", "abc", 1.0), ("abc", "cab", 1.0), ("abc", "ab", 2 / 3), ("ab", "xy", 0.0), ("", "", 1.0), ("", "a", 0.0)],
)
def test_overlap_is_a_share_of_the_longer_list(one: str, other: str, expected: float) -> None:
    assert overlap(one, other) == overlap(other, one) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 1, 2, 3], [3, 2, 1, 0], -1.0),
        # One of six pairs is in another order: (5 - 1) / 6.
        ([0, 1, 2, 3], [1, 0, 2, 3], 4 / 6),
        # Two pairs agree, one is tied in the second list: 2 / sqrt(3 * 2).
        ([0, 1, 2], [0, 1, 1], 2 / math.sqrt(6)),
        ([0, 0], [0, 1], None),
        ([0], [0], None),
        ([], [], None),
    ],
)
def test_tau_b_of_small_lists_is_that_of_the_formula(one: list[int], other: list[int], expected: float | None) -> None:
    assert tau_b(one, other) == (expected if expected is None else pytest.approx(expected))


def test_ranks_tie_equal_scores_of_one_tier_alone() -> None:
    assert ranks([("must", 0.5), ("must", 0.5), ("nice", 0.5), ("nice", 0.4), ("nice", None), ("nice", None)]) == [
        *(0, 0, 1, 2, 3, 4)
    ]
    assert ranks([]) == []
