"""No measure rewards filling slots: memories that are not relevant never improve a ranking's score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from lab.measures.catalogue import MEASURES, RANKED
from lab.measures.inputs import judge
from lab.measures.model import InjectedMeasure, ProbeMeasure, TurnMeasure

GOLD = {"a": 2, "b": 1, "c": 1}
HIGHER = sorted(name for name, measure in RANKED.items() if measure.better == "higher" and measure.cut)


@pytest.mark.parametrize("name", HIGHER)
@given(some.lists(some.sampled_from("abcxyz"), unique=True, max_size=5), some.integers(1, 6))
def test_rank_measure_of_a_filled_ranking_is_not_higher(name: str, kept: Sequence[str], k: int) -> None:
    filled = [*kept, *(f"other {slot}" for slot in range(6 - len(kept)))]
    few, full = (RANKED[name].values(judge([ranking], [GOLD]), k)[0] for ranking in (list(kept), filled))
    assert full <= few or np.isnan(few)


def test_measures_of_filled_slots_have_no_good_direction_or_are_harms() -> None:
    """What counts injected memories as such is better lower, or says nothing about better."""
    counting = {"InjectedItems", "InjectedChars", "InjectedTokens", "NicePresence", "FalseRecall", "FalseItems"}
    directions = {
        measure.name: measure.better
        for measure in MEASURES
        if isinstance(measure, InjectedMeasure | ProbeMeasure | TurnMeasure) and measure.name in counting
    }
    assert directions.keys() == counting
    assert {name for name, better in directions.items() if better == "higher"} == set()
