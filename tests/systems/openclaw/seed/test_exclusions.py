"""Excluded memories take no other memory's place: the search itself leaves them out (E-66)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.retrieval.contract import Filter, Hit, Lanes
from lab.retrieval.fusion import fuse
from lab.systems.openclaw.recall.retrieve import DEEPEST, Searched, Tiers
from tests.starving import failure


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_recall_of_generated_stores_never_starves(first: int) -> None:
    assert [failed for seed in range(first, first + 50) if (failed := failure(seed))] == []


class Counted:
    """A view with given lanes that records how deep it was searched."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes, self.depths = lanes, list[int]()

    def search(self, where: Filter, limit: int) -> Lanes:
        self.depths.append(limit)
        return Lanes(self.lanes.fts[:limit], self.lanes.vec[:limit])


@settings(max_examples=60)
@given(data=st.data())
def test_admitted_search_equals_one_of_a_store_without_the_excluded(kit: Any, data: st.DataObject) -> None:
    count, limit = data.draw(st.integers(1, 150)), data.draw(st.sampled_from((1, 3, 12)))
    rows = [kit.row(f"k{at}", "gateway") for at in range(count)]
    random = data.draw(st.randoms(use_true_random=False))
    excluded = {number for number in range(count) if random.random() < data.draw(st.sampled_from((0.0, 0.5, 0.98)))}
    fts = [Hit(number, 1.0 / at) for at, number in enumerate(random.sample(range(count), count // 2), 1)]
    vec = [Hit(number, 0.5, 0.004 * at) for at, number in enumerate(random.sample(range(count), count), 1)]
    view = Counted(Lanes(fts, vec))
    tiers = Tiers(view, rows, limit, {})
    result = tiers.admitted(Filter(), lambda row: int(row.key[1:]) in excluded)
    without = Lanes(*([hit for hit in lane if hit.row not in excluded] for lane in (fts, vec)))
    expected = fuse(Lanes(without.fts[:limit], without.vec[:limit]), rows, limit)
    assert result.fused == expected
    assert (result.excluded > 0) <= bool(excluded)
    # One search if nothing was excluded, and each further one is four times as deep.
    assert view.depths == [limit * 4**step for step in range(len(view.depths))]
    assert len(view.depths) == 1 or excluded


def test_admitted_search_stops_at_the_maximum_depth(kit: Any) -> None:
    rows = [kit.row(f"k{at}", "gateway", trust_tier="quarantined") for at in range(3)]
    view = Counted(Lanes([], [Hit(at % 3, 0.5, 1.0) for at in range(2 * DEEPEST)]))
    result = Tiers(view, rows, 12, {}).admitted(Filter(), lambda row: row.trust_tier == "quarantined")
    assert (result.fused, result.excluded, view.depths[-1]) == ([], 3, DEEPEST)


def test_effect_of_a_rule_is_searched_only_in_the_tiers_that_it_emptied(
    kit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, admitted = list[str](), Tiers.admitted

    def counted(self: Tiers, where: Filter, *rest: Any) -> Searched:
        searched.extend(where.labels or ())
        return admitted(self, where, *rest)

    monkeypatch.setattr(Tiers, "admitted", counted)
    rows = [
        kit.row("m", "the gateway is blue", label=kit.MUST),
        kit.row("n", "the gateway is green", label=kit.NICE),
        kit.row("t", "paint the gateway", label=kit.NICE, category="todo", days=9),
    ]
    turn = kit.Talk(rows, kit.flow()).say("what colour is the gateway?")
    assert len(turn.stale) == 1
    assert searched.count(kit.NICE) == 2
    assert searched.count(kit.MUST) == 1
