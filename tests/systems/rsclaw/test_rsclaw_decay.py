"""Decay and transitions of rsclaw: the worked cases, a table of transitions, and properties."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.systems.rsclaw.document import (
    CORE,
    DAY_SECONDS,
    FLOOR,
    PERIPHERAL,
    PRESETS,
    TIERS,
    WORKING,
    Promotion,
    Vitals,
    relevance,
    single,
    tier_after,
)

DEFAULT = PRESETS["default"]


def vitals(tier: str, importance: float, days: float = 0.0, accesses: int = 0, *, pinned: bool = False) -> Vitals:
    return Vitals(tier, importance, accesses, pinned, round(days * DAY_SECONDS))


# Tier, importance, age in days, accesses -> relevance.
CASES = (
    (WORKING, 0.5, 0, 0, 0.550000),
    (WORKING, 0.5, 10, 0, 0.508642),
    (WORKING, 0.5, 90, 1, 0.354167),
    (CORE, 0.95, 365, 2, 0.900000),
    (PERIPHERAL, 0.3, 30, 0, 0.207373),
    (PERIPHERAL, 0.3, 61, 2, 0.207203),
    (WORKING, 0.8, 30, 5, 0.754268),
    (PERIPHERAL, 0.5, 5, 3, 0.651500),
)


@pytest.mark.parametrize("f32", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_relevance_of_the_worked_cases(case: tuple[str, float, int, int, float], f32: bool) -> None:
    tier, importance, days, accesses, expected = case
    assert relevance(vitals(tier, importance, days, accesses), f32=f32) == pytest.approx(expected, abs=1e-6)


def test_core_recency_without_its_floor() -> None:
    # The composite of the fourth case is .598382; only the floor lifts it to .9.
    half_life = 30.0 * math.exp(1.5 * 0.95)
    recency = math.exp(-math.log(2) / half_life * 365**0.8)
    assert recency == pytest.approx(0.536194, abs=1e-6)
    assert 0.4 * recency + 0.3 * (1 - math.exp(-0.4)) + 0.3 * 0.95 == pytest.approx(0.598382, abs=1e-6)


def test_relevance_pinned_is_one_at_any_age() -> None:
    assert relevance(vitals(PERIPHERAL, 0.0, 5000, pinned=True)) == 1.0


def test_core_decays_faster_than_working_within_the_first_day() -> None:
    """Half a day to the power of .8 is longer than half a day; after a day it is the other way round."""
    assert 0.5**0.8 > 0.5
    assert 2**0.8 < 2
    # The floor of the core hides it for importance up to 2/3, where the composite starts at .9 with few accesses.
    young = [relevance(vitals(tier, 1.0, 0.5, 3)) for tier in (CORE, WORKING, PERIPHERAL)]
    assert young[0] == 0.9
    assert young[1] < young[2]


TRANSITIONS = (
    # tier, importance, days, accesses, pinned -> in seed, in code
    ("pinned_is_core", WORKING, 0.1, 500, 0, True, CORE, CORE),
    ("importance_alone", PERIPHERAL, 0.9, 0, 0, False, CORE, CORE),
    ("importance_just_below", WORKING, 0.89, 0, 0, False, WORKING, WORKING),
    ("accesses_alone", PERIPHERAL, 0.1, 400, 15, False, CORE, CORE),
    ("accesses_just_below", WORKING, 0.5, 400, 14, False, WORKING, WORKING),
    ("both", WORKING, 0.8, 0, 5, False, CORE, CORE),
    ("both_accesses_below", WORKING, 0.8, 0, 4, False, WORKING, WORKING),
    ("both_importance_below", WORKING, 0.79, 0, 14, False, WORKING, WORKING),
    ("old_and_unused", WORKING, 0.5, 61, 2, False, PERIPHERAL, PERIPHERAL),
    ("sixty_days_exactly", WORKING, 0.5, 60, 0, False, WORKING, WORKING),
    ("old_and_used", WORKING, 0.5, 61, 3, False, WORKING, WORKING),
    ("core_old_and_unused", CORE, 0.85, 61, 2, False, CORE, PERIPHERAL),
    ("core_young", CORE, 0.85, 59, 0, False, CORE, CORE),
    ("irrelevant", PERIPHERAL, 0.0, 59, 0, False, PERIPHERAL, PERIPHERAL),
    ("peripheral_used", PERIPHERAL, 0.5, 5, 3, False, WORKING, WORKING),
    ("peripheral_used_too_little", PERIPHERAL, 0.5, 5, 2, False, PERIPHERAL, PERIPHERAL),
    ("peripheral_used_but_faded", PERIPHERAL, 0.3, 300, 4, False, PERIPHERAL, PERIPHERAL),
)


@pytest.mark.parametrize("row", TRANSITIONS, ids=lambda row: row[0])
def test_tier_after_a_write_or_touch(row: tuple[str, str, float, float, int, bool, str, str]) -> None:
    _, tier, importance, days, accesses, pinned, in_seed, in_code = row
    found = vitals(tier, importance, days, accesses, pinned=pinned)
    assert tier_after(found, DEFAULT, core_demotion=False) == in_seed
    assert tier_after(found, DEFAULT, core_demotion=True, f32=True) == in_code


def test_tier_one_second_past_sixty_days_is_peripheral() -> None:
    old = Vitals(WORKING, 0.5, 0, False, 60 * DAY_SECONDS + 1)
    assert tier_after(old, DEFAULT, core_demotion=False) == PERIPHERAL
    assert relevance(old) > 0.15


@pytest.mark.parametrize(
    ("importance", "accesses", "tier"), [(0.6, 0, CORE), (0.1, 3, CORE), (0.5, 2, CORE), (0.59, 1, WORKING)]
)
def test_promotion_of_the_test_preset(importance: float, accesses: int, tier: str) -> None:
    found = vitals(WORKING, importance, 0, accesses)
    assert tier_after(found, PRESETS["test"], core_demotion=False) == tier
    assert tier_after(found, DEFAULT, core_demotion=False) == WORKING


ages = st.integers(0, 40 * 365 * DAY_SECONDS)


@given(st.sampled_from(TIERS), st.floats(0, 1), st.integers(0, 30), ages, ages, st.booleans())
def test_relevance_never_rises_with_age(
    tier: str, importance: float, accesses: int, first: int, second: int, f32: bool
) -> None:
    younger, older = sorted((first, second))
    values = [relevance(Vitals(tier, importance, accesses, False, age), f32=f32) for age in (younger, older)]
    assert values[0] >= values[1]
    assert all(FLOOR[tier] - 1e-6 <= value <= 1 for value in values)


@given(st.sampled_from(TIERS), st.floats(0, 1), st.integers(0, 30), st.integers(0, 2 * DAY_SECONDS), st.booleans())
def test_relevance_never_rises_within_the_first_days(
    tier: str, importance: float, accesses: int, age: int, f32: bool
) -> None:
    """Neighbouring seconds: the rounding to 32 bits may not turn the order round, nor may the core's exponent."""
    now, later = (relevance(Vitals(tier, importance, accesses, False, each), f32=f32) for each in (age, age + 1))
    assert now >= later


@given(st.sampled_from(TIERS), st.floats(0, 1), st.integers(0, 30), ages)
def test_relevance_in_32_bits_is_close(tier: str, importance: float, accesses: int, age: int) -> None:
    found = Vitals(tier, importance, accesses, False, age)
    narrow = relevance(found, f32=True)
    assert narrow == single(narrow)
    assert narrow == pytest.approx(relevance(found), abs=2e-6)


@given(st.sampled_from(TIERS), st.floats(0, 1), st.integers(0, 30), ages, st.booleans())
def test_tier_after_is_settled_by_one_step(
    tier: str, importance: float, accesses: int, age: int, demotes: bool
) -> None:
    found = Vitals(tier, importance, accesses, False, age)
    once = tier_after(found, DEFAULT, core_demotion=demotes)
    assert tier_after(found._replace(tier=once), DEFAULT, core_demotion=demotes) == once
    if tier == CORE and not demotes:
        assert once == CORE


def test_promotion_thresholds_are_inclusive() -> None:
    edge = Promotion(access_only=1, importance_only=1.0, both_access=9, both_importance=1.0)
    assert tier_after(vitals(WORKING, 0.1, 0, 1), edge, core_demotion=False) == CORE
    assert tier_after(vitals(WORKING, 0.1, 0, 0), edge, core_demotion=False) == WORKING
