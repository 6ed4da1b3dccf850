"""Tests that may be looked at after every observation keep their promise, and find what they must."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from lab.compare.anytime import Detector, bounds, evidence, factor, first_at, since, still_needed


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


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("limit", [0.05, 0.5, 0.8])
def test_evidence_at_the_limit_rarely_reaches_its_threshold(limit: float, above: bool) -> None:
    # Whole sessions fail or do not: the strongest dependence within one.
    streams = (np.random.default_rng(7).random((300, 1000)) < limit).astype(float)
    reached = (evidence(streams, limit, above=above) >= 20).any(axis=0)
    assert 0 < reached.mean() <= 0.05


@pytest.mark.parametrize("above", [True, False])
def test_evidence_is_one_on_average_whatever_was_seen(above: bool) -> None:
    before = [0.0, 0.3, 1.0, 0.05]
    ends = [evidence([*before, last], 0.05, above=above) for last in (0.0, 1.0)]
    assert 0.95 * ends[0][-1] + 0.05 * ends[1][-1] == pytest.approx(ends[0][-2])
    assert 0.95 * evidence([0.0], 0.05, above=above)[0] + 0.05 * evidence([1.0], 0.05, above=above)[0] == pytest.approx(
        1
    )


def test_evidence_of_streams_equals_that_of_each() -> None:
    streams = np.random.default_rng(8).random((30, 3))
    together = evidence(streams, 0.3, above=True)
    assert np.array_equal(together[:, 1], evidence(streams[:, 1], 0.3, above=True))
    limits = evidence(np.repeat(streams[:, :1], 2, axis=1), [0.3, 0.6], above=False)
    assert np.array_equal(limits[:, 1], evidence(streams[:, 0], 0.6, above=False))


def test_clean_sessions_show_a_limit_after_what_it_costs() -> None:
    shown = first_at(evidence([0.0] * 200, 0.05, above=False), 20)
    # Any valid test needs ln(.05) / ln(.95) sessions; the mixture of bets costs a few more.
    assert math.ceil(math.log(0.05) / math.log(0.95)) == 59 <= shown <= 68
    assert still_needed([0.0] * 20, 0.0, 0.05, 20, above=False) == shown - 20
    assert still_needed([0.0] * 20, 0.05, 0.05, 20, above=False) is None
    # One failed session of them costs more than one session, and is not fatal.
    assert shown < first_at(evidence([1.0] + [0.0] * 400, 0.05, above=False), 20) < 200


def test_damage_that_begins_late_is_found_and_what_healed_is_not_forgotten() -> None:
    late = [0.0] * 60 + [1.0] * 10
    assert 61 < first_at(evidence(late, 0.05, above=True), 300) <= 66
    healed = [1.0] * 20 + [0.0] * 66
    assert first_at(evidence(healed, 0.05, above=False), 20) is None


def test_bounds_enclose_the_mean_and_agree_with_the_tests() -> None:
    draw = random.Random(9)
    values = [float(draw.random() < 0.3) for _ in range(200)]
    low, high = bounds(values, 0.05, 0.05, [0.5])
    assert low[-1] < 0.3 < high[-1]
    assert (np.diff(low) >= 0).all()
    found = evidence(values, 0.5, above=False)
    assert high[first_at(found, 20) - 1] <= 0.5
    place = since(found, 20)
    assert high[place - 1] <= 0.5 < high[place - 2]
    # What gets worse is not shown any more.
    assert since(evidence([*values, *[1.0] * 100], 0.5, above=False), 20) is None


def test_evidence_stays_finite_over_weeks() -> None:
    assert np.isfinite(evidence([1.0] * 2000 + [0.0] * 2000, 0.02, above=True)).all()
