"""Steps in a history: planted ones are found, noise is left alone, exact series step where they change."""

from __future__ import annotations

from itertools import combinations, pairwise
from statistics import median

import numpy as np
import pytest

from lab.compare.steps import SHORTEST, Step, _best, _deviations, _fits, steps

DRAWS = {
    "normal": lambda rng, size: rng.normal(size=size),
    "laplace": lambda rng, size: rng.laplace(size=size),
    "uniform": lambda rng, size: rng.uniform(size=size),
    "t with 3 degrees": lambda rng, size: rng.standard_t(3, size),
}


@pytest.mark.parametrize("shape", DRAWS)
def test_steps_of_noise_are_none(shape: str) -> None:
    rng = np.random.default_rng(0)
    found = {size: sum(bool(steps(DRAWS[shape](rng, size).tolist())) for _ in range(100)) for size in (9, 10, 30, 60)}
    # At most two of four hundred noise series have a step.
    assert sum(found.values()) <= 2
    assert found[60] == 0


@pytest.mark.parametrize(("height", "least"), [(3, 90), (4, 98)])
def test_steps_finds_a_planted_step_within_two_positions(height: float, least: int) -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        values = rng.normal(size=60)
        values[30:] += height
        found = steps(values.tolist())
        hits += len(found) == 1 and abs(found[0].at - 30) <= 2 and abs(found[0].after - found[0].before - height) < 1
    assert hits >= least


def test_steps_finds_two_steps_despite_outliers() -> None:
    rng = np.random.default_rng(2)
    values = rng.normal(0, 0.01, 90)
    values[30:60] += 0.2
    values[60:] -= 0.1
    values[[10, 45, 80]] += (0.5, -0.5, 0.4)
    assert [one.at for one in steps(values.tolist())] == [30, 60]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 400])
def test_steps_of_a_constant_series_are_none(size: int) -> None:
    assert steps([0.7] * size) == []


def test_steps_ignore_rounding() -> None:
    assert steps([0.7, 0.7 + 2e-16] * 20 + [0.7 - 3e-16] * 20) == []
    assert steps([0.7] * 10 + [0.7 + 1e-6] * 10) == [Step(10, 0.7, 0.7 + 1e-6)]


def test_steps_of_exact_values_are_every_change() -> None:
    assert steps([1.0, 1.0, 1.0, 2.0]) == [Step(3, 1.0, 2.0)]
    assert steps([1.0] * 9 + [2.0] * 3 + [1.5] * 9) == [Step(9, 1.0, 2.0), Step(12, 2.0, 1.5)]
    # A nightly run that differs once gives two steps.
    assert steps([1.0] * 9 + [2.0] + [1.0] * 9) == [Step(9, 1.0, 2.0), Step(10, 2.0, 1.0)]


def test_steps_of_two_values_need_exact() -> None:
    assert steps([1.0, 2.0]) == []
    assert steps([1.0, 2.0, 3.0]) == []
    # Unless the values are known to be exact.
    assert steps([1.0, 2.0], exact=True) == [Step(1, 1.0, 2.0)]
    assert steps([1.0, 2.0, 2.0, 3.0], exact=True) == [Step(1, 1.0, 2.0), Step(3, 2.0, 3.0)]
    noise = np.random.default_rng(4).normal(size=40).tolist()
    assert steps(noise, exact=True) == []


def test_steps_fit_is_optimal() -> None:
    rng = np.random.default_rng(3)
    values = [round(float(one), 3) for one in rng.normal(size=14)]

    def deviation(first: int, end: int) -> float:
        middle = median(values[first:end])
        return sum(abs(one - middle) for one in values[first:end])

    found = _deviations(values)
    for first, last in combinations(range(14), 2):
        if last - first + 1 >= SHORTEST:
            assert found[first, last] == pytest.approx(deviation(first, last + 1))
    for number, (best, _) in enumerate(_fits(found), 1):
        fits = (
            (0, *inner, 14)
            for inner in combinations(range(1, 14), number - 1)
            if min(b - a for a, b in pairwise((0, *inner, 14))) >= SHORTEST
        )
        assert best == pytest.approx(min(sum(deviation(a, b) for a, b in pairwise(cut)) for cut in fits))
    assert _best(values, 1e-9)[0] == 0


def test_steps_of_nan_raise() -> None:
    with pytest.raises(ValueError, match="finite"):
        steps([1.0, float("nan")])
