"""MustRepeat and MustStreak, on sequences small enough to compute by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lab.measures.definitions.must_repeat import must_repeat
from lab.measures.definitions.must_streak import must_streak
from lab.measures.inputs import Turns, turns_of
from lab.runs.receipts import Receipts
from tests.measures.test_receipt_columns import _row, _table

MUST, NICE = "must_remember", "nice_to_have"


def _turns(*selections: str, pinned: dict[int, list[str]] | None = None) -> Turns:
    """Return turns of one arm: capital letters are must items, ``!`` after one marks it as exempt."""
    rows: list[Any] = []
    for turn, selection in enumerate(selections):
        entries = selection.split()
        items = [(entry[0].lower(), MUST if entry[0].isupper() else NICE, "web") for entry in entries]
        rules = ["phrase" if entry.endswith("!") else None for entry in entries]
        held = (pinned or {}).get(turn, [])
        rows.append(_row("arm", f"t{turn}", "web", items, len(items), item_exempt=rules, pinned=held))
    receipts = Receipts(_table(rows), "desk")
    return turns_of(receipts, receipts.rows_of("arm"))


def _listed(values: np.ndarray) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values.tolist()]


@pytest.mark.parametrize(
    ("selections", "rates", "streak"),
    [
        # Only must items count, in the numerator as in the denominator.
        (("A b", "A b", "A C b"), [None, 1.0, 0.5], 3.0),
        # An exact hit is not counted, and ends a streak; a later turn still counts as a repeat of it.
        (("A", "A!", "A"), [None, None, 1.0], 1.0),
        (("A", "A", "b", "A"), [None, 1.0, None, 1.0], 2.0),
        # Seven turns later it is new again.
        (("A", *["b"] * 6, "A"), [None, *[None] * 6, 0.0], 1.0),
        (("a b", "a b"), [None, None], None),
        (("", "A", "A"), [None, None, 1.0], 2.0),
        (("a", "A"), [None, 1.0], 1.0),
    ],
)
def test_must_repeat_counts_must_items_that_are_not_exempt(
    selections: tuple[str, ...], rates: list[float | None], streak: float | None
) -> None:
    turns = _turns(*selections)
    assert _listed(must_repeat(turns)) == rates
    assert _listed(np.array([must_streak(turns)])) == [streak]


def test_must_repeat_pinned_item_is_not_counted() -> None:
    turns = _turns("A B", "A B", "A B", pinned={1: ["a"], 2: ["a", "b"]})
    assert _listed(must_repeat(turns)) == [None, 1.0, None]
    assert must_streak(turns) == 2.0
