"""The e-detector: factors are e-values, and the mean time to a false alarm is at least the threshold."""

from __future__ import annotations

import random

import pytest

from lab.canary.rollout.evidence import Detector, factor


@pytest.mark.parametrize(("limit", "alternative"), [(0.01, 0.04), (0.05, 0.12), (0.55, 0.89), (0.5, 5 / 6)])
def test_factors_are_e_values_for_any_distribution_of_that_mean(limit: float, alternative: float) -> None:
    assert limit * factor(1, limit, alternative) + (1 - limit) * factor(0, limit, alternative) == pytest.approx(1)
    # As it is linear, only the mean counts.
    assert factor(limit, limit, alternative) == pytest.approx(1)
    assert factor(alternative, limit, alternative) > 1
    assert factor(0, limit, alternative) > 0


def test_mean_time_to_a_false_alarm_is_at_least_the_threshold() -> None:
    draw, times = random.Random(5), []
    for _ in range(400):
        detector = Detector(0.1, 0.3, 200)
        while not detector.add(float(draw.random() < 0.1)):
            pass
        times.append(detector.observations)
    assert sum(times) / len(times) >= 200
    # A bound that is never near would be of no use.
    assert sum(times) / len(times) <= 800


def test_alarm_follows_a_jump_at_any_time() -> None:
    draw = random.Random(6)
    for before in (0, 100, 5000):
        detector = Detector(0.01, 0.04, 20_000)
        for _ in range(before):
            assert not detector.add(float(draw.random() < 0.005))
        after = 0
        while not detector.add(float(draw.random() < 0.2)):
            after += 1
        assert after < 100


def test_evidence_stays_finite() -> None:
    detector = Detector(0.01, 0.04, 10)
    for _ in range(5000):
        detector.add(1.0)
    assert detector.evidence < float("inf")
