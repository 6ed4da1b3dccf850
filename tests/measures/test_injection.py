"""What one injection held: nice memories, gold among them, other scopes, misleading ones, duplicates, hard rules."""

from __future__ import annotations

import numpy as np
import pytest

from lab.measures.catalogue import BY_NAME
from lab.measures.conversation import Probes, Turns
from lab.measures.definitions.gold_nice import gold_nice
from lab.measures.model import InjectedMeasure, ProbeMeasure, TurnMeasure
from lab.measures.ranking import judge
from lab.measures.repetition import selections_of
from lab.measures.score import never_seen

NAN = float("nan")


NOTHING = judge([], [])
COLUMNS = [name for name in Turns.__slots__ if name != "chosen"]


def _of_turns(measure: str, columns: str, cases: list[tuple[float, ...]]) -> np.ndarray:
    """A turn measure of turns with these columns, a turn a case; the other columns are 0."""
    given = {name: np.array(values) for name, values in zip(columns.split(), zip(*cases, strict=True), strict=True)}
    assert set(given) <= set(COLUMNS)
    one = BY_NAME[measure]
    assert isinstance(one, TurnMeasure)
    zero = np.zeros(len(cases), np.int64)
    return one.values(Turns(chosen=selections_of([]), **(dict.fromkeys(COLUMNS, zero) | given)))


def _probes(**given: object) -> Probes:
    columns = dict.fromkeys(("ranked", "injected", "pinned", "nice", "misleading"), NOTHING)
    return Probes(**{"items": np.zeros(0), "chars": np.zeros(0), **columns, **given})  # type: ignore[arg-type]  # columns by name


def _same(found: np.ndarray, expected: list[float]) -> None:
    np.testing.assert_array_equal(found, expected)


def test_nice_presence_asks_for_any_nice_memory() -> None:
    # Where no nice memory could have been injected, its absence says nothing.
    found = _of_turns("NicePresence", "nice visible_nice", [(1, 3), (2, 3), (0, 3), (0, 0)])
    _same(found, [1.0, 1.0, 0.0, NAN])


def test_gold_nice_asks_for_a_wanted_nice_memory_among_the_first() -> None:
    injected = [["a", "b"], ["a", "b"], [], ["a"], []]
    nice = [{"b": 1}, {"c": 1}, {"b": 1}, {}, {}]
    _same(gold_nice(judge(injected, nice), 2), [1.0, 0.0, 0.0, NAN, NAN])
    _same(gold_nice(judge(injected, nice), 1), [0.0, 0.0, 0.0, NAN, NAN])


def test_wrong_scope_is_the_share_of_foreign_memories() -> None:
    found = _of_turns("WrongScope", "foreign injected", [(0, 2), (2, 4), (3, 3), (0, 0)])
    _same(found, [0.0, 2 / 4, 1.0, NAN])


def test_forbidden_asks_for_a_misleading_memory_among_the_first() -> None:
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
    present = BY_NAME["Present"]
    assert isinstance(present, ProbeMeasure)
    _same(present.values(_probes(injected=judge([injected], [gold]), pinned=judge([pinned], [gold]))), [expected])


def test_backbone_duplication_is_the_share_of_memories_that_say_it_again() -> None:
    # Without a digest nothing can say what it says; without memories nothing does.
    cases = [(1, 4), (3, 3), (0, 5), (NAN, 5), (0, 0), (NAN, 0)]
    found = _of_turns("BackboneDuplication", "duplicates injected", cases)
    _same(found, [1 / 4, 1.0, 0.0, NAN, NAN, NAN])


def test_hard_rules_are_the_share_that_stands_in_the_prompt() -> None:
    found = _of_turns("HardRules", "hard_kept hard_rules", [(2, 3), (3, 3), (0, 2), (0, 0)])
    _same(found, [2 / 3, 1.0, 0.0, NAN])


@pytest.mark.parametrize(
    ("measure", "columns", "cases", "expected"),
    [
        ("Future", "future injected pinned", [(1, 4, 0), (0, 0, 1), (2, 2, 0), (0, 0, 0)], [1 / 4, 0.0, 1.0, NAN]),
        ("Future", "future injected pinned", [(1, 2, 2)], [1 / 4]),
        ("Duplicates", "duplicate_items injected", [(1, 4), (0, 2), (0, 0)], [1 / 4, 0.0, NAN]),
        ("Unescaped", "unescaped injected", [(2, 4), (0, 2), (0, 0)], [2 / 4, 0.0, NAN]),
        # Where nothing is superseded, nothing can be stale.
        ("StaleRecall", "stale superseded", [(1, 3), (0, 1), (0, 0)], [1.0, 0.0, NAN]),
        ("AnyWrongScope", "foreign", [(1,), (0,)], [1.0, 0.0]),
        ("BudgetEvictions", "evicted", [(0,), (2,), (NAN,)], [0.0, 2.0, NAN]),
        ("InjectedTokens", "tokens", [(9,), (0,)], [9.0, 0.0]),
    ],
)
def test_measures_of_the_block_are_worked_out_by_hand(
    measure: str, columns: str, cases: list[tuple[float, ...]], expected: list[float]
) -> None:
    _same(_of_turns(measure, columns, cases), expected)


def test_what_was_never_seen_in_n_may_happen_in_about_three_of_n() -> None:
    assert [never_seen(n) for n in (1, 300, 10_000)] == pytest.approx([0.95, 0.00994, 0.000299], rel=1e-2)
