"""The front: what nothing beats."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from lab.sweep.front import pareto


@given(some.lists(some.tuples(*[some.integers(0, 4)] * 3), min_size=1, max_size=30))
def test_nothing_beats_what_is_on_the_front_and_something_beats_the_rest(rows: list[tuple[int, int, int]]) -> None:
    front = pareto(np.asarray(rows, float))

    def beats(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
        return all(a >= b for a, b in zip(one, other, strict=True)) and one != other

    assert [not any(beats(other, one) for other in rows) for one in rows] == front.tolist()
