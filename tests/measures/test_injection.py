"""Measures of injections: nice memories, gold among them, scopes, misleading memories, hard rules."""

from __future__ import annotations

import numpy as np
import pytest

from lab.measures.catalogue import BY_NAME
from lab.measures.definitions.gold_nice import gold_nice
from lab.measures.inputs import Probes, Turns, judge, selections_of
from lab.measures.model import InjectedMeasure, ProbeMeasure, TurnMeasure
from lab.measures.score import never_seen

NAN = float("nan")


NOTHING = judge([], [])
COLUMNS = [name for name in Turns._fields if name not in ("chosen", "must")]


def _of_turns(measure: str, columns: str, cases: list[tuple[float, ...]]) -> np.ndarray:
    """Return a turn measure, one turn for each case with these columns; other columns are 0."""
    given = {name: np.array(values) for name, values in zip(columns.split(), zip(*cases, strict=True), strict=True)}
    assert set(given) <= set(COLUMNS)
    one = BY_NAME[measure]
    assert isinstance(one, TurnMeasure)
    zero = np.zeros(len(cases), np.int64)
    nothing = selections_of([])
    return one.values(Turns(chosen=nothing, must=nothing, **(dict.fromkeys(COLUMNS, zero) | given)))


def _probes(**given: object) -> Probes:
    columns = dict.fromkeys(("ranked", "injected", "pinned", "nice", "misleading", "pinned_misleading"), NOTHING)
    counts = dict.fromkeys(("items", "chars", "tokens", "answer_share"), np.zeros(0))
    counts |= dict.fromkeys(("points", "corrections"), np.zeros(0, np.int64))
    return Probes(**{**counts, **columns, **given})  # type: ignore[arg-type]  # columns by name


def _same(result: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_array_equal(result, expected)


def test_nice_presence_counts_any_nice_memory() -> None:
    # Without a visible nice memory the measure has no value.
    result = _of_turns("NicePresence", "nice visible_nice", [(1, 3), (2, 3), (0, 3), (0, 0)])
    _same(result, [1.0, 1.0, 0.0, NAN])


def test_gold_nice_counts_relevant_nice_memories_in_the_first_k() -> None:
    injected = [["a", "b"], ["a", "b"], [], ["a"], []]
    nice = [{"b": 1}, {"c": 1}, {"b": 1}, {}, {}]
    _same(gold_nice(judge(injected, nice), 2), [1.0, 0.0, 0.0, NAN, NAN])
    _same(gold_nice(judge(injected, nice), 1), [0.0, 0.0, 0.0, NAN, NAN])


def test_hits_for_1000_tokens_count_relevant_memories_by_what_the_block_costs() -> None:
    injected = judge([["a", "b"], ["a", "x"], ["x"], []], [{"a": 2, "b": 1}, {"a": 1}, {"a": 1}, {"a": 1}])
    measure = BY_NAME["HitsPer1kTokens"]
    assert isinstance(measure, ProbeMeasure)
    _same(measure.values(_probes(injected=injected, tokens=np.array([500.0, 250.0, 90.0, 0.0]))), [4.0, 4.0, 0.0, 0.0])


def test_wrong_scope_is_the_share_of_foreign_memories() -> None:
    result = _of_turns("WrongScope", "foreign injected", [(0, 2), (2, 4), (3, 3), (0, 0)])
    _same(result, [0.0, 2 / 4, 1.0, NAN])


def test_forbidden_counts_misleading_memories_in_the_first_k() -> None:
    injected = [["a", "b"], ["a", "b"], [], ["a"]]
    unwanted = [{"b": 1}, {"c": 1, "d": 1}, {"c": 1}, {}]
    forbidden = BY_NAME["Forbidden"]
    assert isinstance(forbidden, InjectedMeasure)
    probes = _probes(misleading=judge(injected, unwanted))
    _same(forbidden.values(probes, 6), [1.0, 0.0, 0.0, NAN])
    _same(forbidden.values(probes, 1), [0.0, 0.0, 0.0, NAN])
    assert forbidden.probes == "all"


@pytest.mark.parametrize(
    ("injected", "pinned", "gold", "expected"),
    [
        (["a", "b"], [], {"b": 1}, 1.0),
        # A line of the Working Set counts like an item.
        (["a"], ["b"], {"b": 2}, 1.0),
        ([], ["b"], {"b": 1, "c": 1}, 1.0),
        (["a"], ["b"], {"c": 1}, 0.0),
        ([], [], {"c": 1}, 0.0),
    ],
)
def test_present_counts_items_and_the_working_set(
    injected: list[str], pinned: list[str], gold: dict[str, int], expected: float
) -> None:
    present = BY_NAME["Present"]
    assert isinstance(present, InjectedMeasure)
    _same(present.values(_probes(injected=judge([injected], [gold]), pinned=judge([pinned], [gold])), 2), [expected])


def test_backbone_duplication_is_the_share_of_repetitions() -> None:
    # No value without a Working Set or without memories.
    cases = [(1, 4), (3, 3), (0, 5), (NAN, 5), (0, 0), (NAN, 0)]
    result = _of_turns("BackboneDuplication", "duplicates injected", cases)
    _same(result, [1 / 4, 1.0, 0.0, NAN, NAN, NAN])


def test_hard_rules_is_the_share_in_the_prompt() -> None:
    result = _of_turns("HardRules", "hard_kept hard_rules", [(2, 3), (3, 3), (0, 2), (0, 0)])
    _same(result, [2 / 3, 1.0, 0.0, NAN])


@pytest.mark.parametrize(
    ("measure", "columns", "cases", "expected"),
    [
        ("Future", "future injected pinned", [(1, 4, 0), (0, 0, 1), (2, 2, 0), (0, 0, 0)], [1 / 4, 0.0, 1.0, NAN]),
        ("Future", "future injected pinned", [(1, 2, 2)], [1 / 4]),
        ("Duplicates", "duplicate_items injected", [(1, 4), (0, 2), (0, 0)], [1 / 4, 0.0, NAN]),
        ("Unescaped", "unescaped injected", [(2, 4), (0, 2), (0, 0)], [2 / 4, 0.0, NAN]),
        # No value where nothing is superseded.
        ("StaleRecall", "stale superseded", [(1, 3), (0, 1), (0, 0)], [1.0, 0.0, NAN]),
        ("AnyWrongScope", "foreign", [(1,), (0,)], [1.0, 0.0]),
        ("BudgetEvictions", "evicted", [(0,), (2,), (NAN,)], [0.0, 2.0, NAN]),
        ("InjectedTokens", "tokens", [(9,), (0,)], [9.0, 0.0]),
        # No value at the first turn, nor for an empty block.
        ("PrefixStable", "stable_chars body_chars", [(NAN, 40), (10, 40), (0, 40), (0, 0)], [NAN, 0.25, 0.0, NAN]),
        ("PrefixTokens", "prefix_tokens", [(NAN,), (7,), (0,)], [NAN, 7.0, 0.0]),
        ("PrefixShare", "prefix_tokens tokens", [(NAN, 8), (6, 8), (0, 8), (0, 0)], [NAN, 0.75, 0.0, NAN]),
        # No value without a receipt.
        ("ReceiptBytes", "receipt_bytes", [(900,), (NAN,)], [900.0, NAN]),
        ("ReceiptLines", "receipt_lines", [(12,), (NAN,)], [12.0, NAN]),
        ("Explained", "explained to_explain", [(3, 4), (0, 2), (0, 0), (NAN, 3)], [0.75, 0.0, NAN, NAN]),
    ],
)
def test_block_measures_equal_values_by_hand(
    measure: str, columns: str, cases: list[tuple[float, ...]], expected: list[float]
) -> None:
    _same(_of_turns(measure, columns, cases), expected)


def test_never_seen_is_about_three_over_n() -> None:
    assert [never_seen(n) for n in (1, 300, 10_000)] == pytest.approx([0.95, 0.00994, 0.000299], rel=1e-2)
