"""What one injection held: nice memories, gold among them, other scopes, misleading ones, duplicates, hard rules."""

from __future__ import annotations

import pytest

from lab.measures.injection import (
    backbone_duplication,
    forbidden,
    gold_nice,
    hard_rules,
    nice_presence,
    present,
    wrong_scope,
)

MUST, NICE, UNKNOWN = "must_remember", "nice_to_have", "unknown"


@pytest.mark.parametrize(
    ("labels", "visible_nice", "expected"),
    [
        ([MUST, NICE], 3, 1.0),
        ([MUST, UNKNOWN], 3, 0.0),
        ([], 1, 0.0),
        # Where no nice memory could have been injected, its absence says nothing.
        ([MUST], 0, None),
        ([], 0, None),
    ],
)
def test_nice_presence_asks_for_any_nice_memory(labels: list[str], visible_nice: int, expected: float | None) -> None:
    assert nice_presence(labels, visible_nice) == expected


@pytest.mark.parametrize(
    ("injected", "gold_labels", "expected"),
    [
        (["a", "b"], {"b": NICE}, 1.0),
        (["a", "b"], {"c": NICE}, 0.0),
        # A gold memory of another label is no nice gold, injected or not.
        (["a"], {"a": MUST, "b": NICE}, 0.0),
        (["a"], {"a": MUST}, None),
        (["a"], {"a": UNKNOWN}, None),
        ([], {"b": NICE}, 0.0),
        ([], {}, None),
    ],
)
def test_gold_nice_asks_for_a_wanted_nice_memory(
    injected: list[str], gold_labels: dict[str, str], expected: float | None
) -> None:
    assert gold_nice(injected, gold_labels) == expected


@pytest.mark.parametrize(
    ("scopes", "home", "expected"),
    [
        (["web", "web"], "web", 0.0),
        (["web", "app", "global", "app"], "web", 2 / 4),
        (["global"], "web", 0.0),
        # A turn of the global scope has memories of projects as wrong ones.
        (["web", "global"], "global", 1 / 2),
        ([], "web", None),
    ],
)
def test_wrong_scope_is_the_share_of_foreign_memories(scopes: list[str], home: str, expected: float | None) -> None:
    assert wrong_scope(scopes, home) == expected


@pytest.mark.parametrize(
    ("injected", "unwanted", "expected"),
    [
        (["a", "b"], ["b"], 1.0),
        (["a", "b"], ["c", "d"], 0.0),
        ([], ["c"], 0.0),
        (["a"], [], None),
    ],
)
def test_forbidden_asks_for_a_misleading_memory(
    injected: list[str], unwanted: list[str], expected: float | None
) -> None:
    assert forbidden(injected, unwanted) == expected


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
    assert present(injected, pinned, gold) == expected


@pytest.mark.parametrize(
    ("duplicates", "injected", "expected"),
    [
        (1, 4, 1 / 4),
        (3, 3, 1.0),
        (0, 5, 0.0),
        # Without a digest nothing can say what it says; without memories nothing does.
        (None, 5, None),
        (0, 0, None),
        (None, 0, None),
    ],
)
def test_backbone_duplication_is_the_share_of_memories_that_say_it_again(
    duplicates: int | None, injected: int, expected: float | None
) -> None:
    assert backbone_duplication(duplicates, injected) == expected


@pytest.mark.parametrize(("kept", "visible", "expected"), [(2, 3, 2 / 3), (3, 3, 1.0), (0, 2, 0.0), (0, 0, None)])
def test_hard_rules_are_the_share_that_stands_in_the_prompt(kept: int, visible: int, expected: float | None) -> None:
    assert hard_rules(kept, visible) == expected
