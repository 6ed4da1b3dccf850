"""Measures of repetition, on sequences small enough to compute by hand."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from lab.measures.definitions import distinct_share as distinct_shares
from lab.measures.definitions import jaccard, repeat_dominance, repeat_rate
from lab.measures.definitions import longest_streak as longest_streaks
from lab.measures.inputs import WINDOW, selections_of

Selections = list[list[str]]


def _listed(values: np.ndarray) -> list[float | None]:
    """Return values with None for NaN, as on disk."""
    return [None if np.isnan(value) else value for value in values.tolist()]


def repeat_rates(selections: Selections, window: int = WINDOW) -> list[float | None]:
    return _listed(repeat_rate.repeat_rates(selections_of(selections), window))


def dominance(selections: Selections, window: int = WINDOW) -> list[float | None]:
    return _listed(repeat_dominance.dominance(selections_of(selections), window))


def distinct_share(selections: Selections, window: int = WINDOW) -> list[float | None]:
    return _listed(distinct_shares.distinct_share(selections_of(selections), window))


def longest_streak(selections: Selections) -> float | None:
    return _listed(np.array([longest_streaks.longest_streak(selections_of(selections))]))[0]


def neighbour_jaccard(selections: Selections) -> list[float | None]:
    return _listed(jaccard.neighbour_jaccard(selections_of(selections)))


def test_repetition_window_is_six_turns() -> None:
    assert WINDOW == 6


@pytest.mark.parametrize(
    ("selections", "expected"),
    [
        ([], []),
        ([["a", "b"]], [None]),
        ([["a", "b"], ["b", "c"], ["d", "e"], ["a", "b", "c", "x"]], [None, 0.5, 0.0, 0.75]),
        # Empty selections have no rate, nor has the first one that is not empty.
        ([[], [], ["a"], [], ["a"]], [None, None, None, None, 1.0]),
        # A new memory later on gives 0, not a missing value.
        ([["a"], [], ["b"]], [None, None, 0.0]),
    ],
)
def test_repeat_rate_is_the_share_seen_in_the_window(selections: Selections, expected: list[float | None]) -> None:
    assert repeat_rates(selections) == expected


@pytest.mark.parametrize(("between", "expected"), [(5, 1.0), (6, 0.0)])
def test_repeat_rate_looks_back_six_turns(between: int, expected: float) -> None:
    selections = [["a"], *([f"other{turn}"] for turn in range(between)), ["a"]]
    assert repeat_rates(selections)[-1] == expected


def test_repeat_rate_empty_turns_count_in_the_window() -> None:
    assert repeat_rates([["a"], *([] for _ in range(5)), ["a"]])[-1] == 1.0
    assert repeat_rates([["a"], *([] for _ in range(6)), ["a"]])[-1] == 0.0


def test_repeat_rate_window_of_one_is_the_previous_turn() -> None:
    assert repeat_rates([["a"], ["b"], ["a"], ["a"]], window=1) == [None, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("selections", "expected"),
    [
        ([], []),
        ([[], []], [None, None]),
        # Turn 3: slots a b a c a, three of five are a. An empty turn adds no slot.
        ([["a", "b"], ["a", "c"], ["a"], []], [1 / 2, 2 / 4, 3 / 5, 3 / 5]),
        ([[], ["a", "b", "c", "d"]], [None, 1 / 4]),
    ],
)
def test_dominance_is_the_share_of_the_most_frequent_memory(
    selections: Selections, expected: list[float | None]
) -> None:
    assert dominance(selections) == expected


def test_dominance_window_includes_the_current_turn() -> None:
    selections = [["a"], *([f"other{turn}"] for turn in range(4)), ["a"], ["z"]]
    # Six selections with a at both ends, then six that hold only the later a.
    assert dominance(selections)[5:] == [2 / 6, 1 / 6]


@pytest.mark.parametrize(
    ("selections", "expected"),
    [
        ([], None),
        ([[], []], None),
        ([["a"]], 1.0),
        ([["a"], ["b"], ["a"], ["b"]], 1.0),
        # b is in the last three; a is in two, and an empty turn ends a streak.
        ([["a"], ["a", "b"], ["b"], ["b", "c"]], 3.0),
        ([["a"], ["a"], [], ["a"]], 2.0),
        # Two overlapping streaks; the longer one starts later.
        ([["a", "b"], ["a", "b"], ["b", "c"], ["b", "c"], ["c"], ["c"]], 4.0),
    ],
)
def test_longest_streak_counts_consecutive_turns(selections: Selections, expected: float | None) -> None:
    assert longest_streak(selections) == expected


@pytest.mark.parametrize(
    ("selections", "expected"),
    [
        ([], []),
        ([["a", "b"]], [None]),
        ([["a", "b"], ["b", "c"], ["c", "b"], ["d"]], [None, 1 / 3, 1.0, 0.0]),
        # Empty and non-empty selections have similarity 0; two empty ones have none.
        ([["a"], [], [], ["a"]], [None, 0.0, None, 0.0]),
        ([[], ["a"]], [None, 0.0]),
    ],
)
def test_jaccard_compares_consecutive_selections(selections: Selections, expected: list[float | None]) -> None:
    assert neighbour_jaccard(selections) == expected


def test_repetition_constant_answers_repeat_and_changing_ones_do_not() -> None:
    static, moving = [["a", "b"]] * 10, [[f"m{turn}", f"n{turn}"] for turn in range(10)]
    assert repeat_rates(static) == [None, *[1.0] * 9]
    assert repeat_rates(moving) == [None, *[0.0] * 9]
    assert longest_streak(static) == 10.0
    assert longest_streak(moving) == 1.0
    assert set(dominance(static)) == {0.5}
    assert distinct_share(static) == [1 / min(turn, WINDOW) for turn in range(1, 11)]
    assert set(distinct_share(moving)) == {1.0}
    assert dominance(moving)[-1] == 1 / 12


@pytest.mark.parametrize("window", [1, 2, 6, 40])
def test_repetition_random_conversations_match_the_definitions(window: int) -> None:
    source = random.Random(window)
    for _ in range(60):
        pool = [f"m{number}" for number in range(source.randint(1, 12))]
        selections = [source.sample(pool, min(len(pool), source.choice((0, 1, 3, 6)))) for _ in range(30)]
        rates, shares, distinct, alike = [], [], [], []
        for turn, chosen in enumerate(selections):
            recent = {key for selection in selections[max(0, turn - window) : turn] for key in selection}
            known = chosen and any(selections[:turn])
            rates.append(sum(key in recent for key in chosen) / len(chosen) if known else None)
            slots = Counter(key for selection in selections[max(0, turn - window + 1) : turn + 1] for key in selection)
            shares.append(max(slots.values()) / slots.total() if slots else None)
            distinct.append(len(slots) / slots.total() if slots else None)
            before = set(selections[turn - 1])
            union = before | set(chosen)
            alike.append(len(before & set(chosen)) / len(union) if turn and union else None)
        assert repeat_rates(selections, window) == rates
        assert dominance(selections, window) == shares
        assert distinct_share(selections, window) == distinct
        assert neighbour_jaccard(selections) == alike
        streaks = [
            length
            for key in pool
            for start in range(30)
            for length in range(1, 31 - start)
            if all(key in chosen for chosen in selections[start : start + length])
        ]
        assert longest_streak(selections) == (max(streaks) if streaks else None)
