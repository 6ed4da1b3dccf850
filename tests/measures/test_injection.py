"""What one injection held: nice memories, gold among them, other scopes, misleading ones, duplicates, hard rules."""

from __future__ import annotations

import numpy as np
import pytest

from lab.measures.block import block_measures, never_seen
from lab.measures.injection import (
    backbone_duplication,
    forbidden,
    gold_nice,
    hard_rules,
    nice_presence,
    present,
    wrong_scope,
)
from lab.measures.ranking import judge

NAN = float("nan")


def _columns(cases: list[tuple[float, ...]]) -> list[np.ndarray]:
    return [np.array(column) for column in zip(*cases, strict=True)]


def _same(found: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_array_equal(found, expected)


def test_nice_presence_asks_for_any_nice_memory() -> None:
    # Where no nice memory could have been injected, its absence says nothing.
    nice, visible = _columns([(1, 3), (2, 3), (0, 3), (0, 0)])
    _same(nice_presence(nice, visible), [1.0, 1.0, 0.0, NAN])


def test_gold_nice_asks_for_a_wanted_nice_memory_among_the_first() -> None:
    injected = [["a", "b"], ["a", "b"], [], ["a"], []]
    nice = [{"b": 1}, {"c": 1}, {"b": 1}, {}, {}]
    _same(gold_nice(judge(injected, nice), 2), [1.0, 0.0, 0.0, NAN, NAN])
    _same(gold_nice(judge(injected, nice), 1), [0.0, 0.0, 0.0, NAN, NAN])


def test_wrong_scope_is_the_share_of_foreign_memories() -> None:
    foreign, injected = _columns([(0, 2), (2, 4), (3, 3), (0, 0)])
    _same(wrong_scope(foreign, injected), [0.0, 2 / 4, 1.0, NAN])


def test_forbidden_asks_for_a_misleading_memory_among_the_first() -> None:
    injected = [["a", "b"], ["a", "b"], [], ["a"]]
    unwanted = [{"b": 1}, {"c": 1, "d": 1}, {"c": 1}, {}]
    _same(forbidden(judge(injected, unwanted), 6), [1.0, 0.0, 0.0, NAN])
    _same(forbidden(judge(injected, unwanted), 1), [0.0, 0.0, 0.0, NAN])


@pytest.mark.parametrize(
    ("injected", "pinned", "gold", "expected"),
    [
        (["a", "b"], [], {"b": 1}, 1.0),
        # A line of the digest is as good as an item.
        (["a"], ["b"], {"b": 2}, 1.0),
        ([], ["b"], {"b": 1, "c": 1}, 1.0),
        (["a"], ["b"], {"c": 1}, 0.0),
        ([], [], {"c": 1}, 0.0),
    ],
)
def test_a_wanted_memory_is_present_as_an_item_or_in_the_digest(
    injected: list[str], pinned: list[str], gold: dict[str, int], expected: float
) -> None:
    _same(present(judge([injected], [gold]), judge([pinned], [gold])), [expected])


def test_backbone_duplication_is_the_share_of_memories_that_say_it_again() -> None:
    # Without a digest nothing can say what it says; without memories nothing does.
    duplicates, injected = _columns([(1, 4), (3, 3), (0, 5), (NAN, 5), (0, 0), (NAN, 0)])
    _same(backbone_duplication(duplicates, injected), [1 / 4, 1.0, 0.0, NAN, NAN, NAN])


def test_hard_rules_are_the_share_that_stands_in_the_prompt() -> None:
    kept, visible = _columns([(2, 3), (3, 3), (0, 2), (0, 0)])
    _same(hard_rules(kept, visible), [2 / 3, 1.0, 0.0, NAN])


def test_measures_of_the_block_are_shares_of_what_was_injected() -> None:
    counts = [(1, 1, 2, 1, 3, 0, 9), (0, 0, 0, 0, 1, 2, 1), (2, 0, 0, 0, 0, NAN, 0), (0, 0, 0, 0, 0, 0, 0)]
    names = ("future", "twins", "raw", "stale", "outdated", "evicted", "tokens")
    told = {name: np.array(column, float) for name, column in zip(names, zip(*counts, strict=True), strict=True)}
    injected, pinned, foreign = _columns([(4, 0, 1), (2, 2, 0), (0, 2, 0), (0, 0, 0)])
    found = block_measures(told, injected, pinned, foreign)
    _same(found["Future"], [1 / 4, 0.0, 1.0, NAN])
    _same(found["Twins"], [1 / 4, 0.0, NAN, NAN])
    _same(found["Unescaped"], [2 / 4, 0.0, NAN, NAN])
    # Where nothing is superseded, nothing can be stale.
    _same(found["StaleRecall"], [1.0, 0.0, NAN, NAN])
    _same(found["AnyWrongScope"], [1.0, 0.0, 0.0, 0.0])
    _same(found["BudgetEvictions"], [0.0, 2.0, NAN, 0.0])
    _same(found["InjectedTokens"], [9.0, 1.0, 0.0, 0.0])


def test_what_was_never_seen_in_n_may_happen_in_about_three_of_n() -> None:
    assert [never_seen(n) for n in (1, 300, 10_000)] == pytest.approx([0.95, 0.00994, 0.000299], rel=1e-2)
