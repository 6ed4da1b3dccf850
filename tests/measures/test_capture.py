"""Measures of what a capturing system wrote, from counts of one conversation."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lab.measures.catalogue import of_kind
from lab.measures.model import WritesMeasure
from lab.runs.receipts import Written

COUNTS = Written(
    turns=40,
    created=10,
    echoes=1,
    held=8,
    repeats=2,
    leaks=1,
    judged=5,
    kept=4,
    candidates=16,
    found=4,
    gold=10,
    gold_found=3,
)
VALUES = {
    "Leaks": 1.0,
    "Stored": 0.25,
    "StoreSize": 8.0,
    "StoreGrowth": 0.2,
    "EchoShare": 0.1,
    "CaptureP": 0.8,
    "CaptureR": 0.25,
    "CaptureJudged": 0.5,
    "CaptureDuplicates": 0.2,
    "GoldKept": 0.3,
}


def test_every_measure_of_writes_has_its_value() -> None:
    assert {measure.name: measure.values(COUNTS) for measure in of_kind(WritesMeasure)} == pytest.approx(VALUES)


@pytest.mark.parametrize(
    ("changed", "undefined"),
    [
        ({"judged": 0, "kept": 0}, {"CaptureP"}),
        ({"candidates": 0, "found": 0}, {"CaptureR"}),
        ({"gold": 0, "gold_found": 0}, {"GoldKept"}),
        ({"created": 0}, {"EchoShare", "CaptureJudged", "CaptureDuplicates"}),
    ],
)
def test_a_share_of_nothing_is_undefined(changed: dict[str, int], undefined: set[str]) -> None:
    counts = replace(COUNTS, **changed)
    assert {one.name for one in of_kind(WritesMeasure) if math.isnan(one.values(counts))} == undefined
