"""The creation time of a memory, parsed as in JavaScript."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conformance.plugin_dates import created_at_ms, parse_date


def ms(*point: int) -> float:
    return datetime(*point, tzinfo=UTC).timestamp() * 1000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1700000000000, 1700000000000),
        (1.5, 1.5),
        (True, 1),
        (False, 0),
        ([True], 0),
        ([None], 0),
        (["12"], 12),
        ("+275760-09-13T00:00:00.000Z", 8.64e15),
        ("+275760-09-13T00:00:00.001Z", 0),
        (None, 0),
        ("", 0),
        ("  ", 0),
        ("2026", 2026),
        ("0x10", 16),
        (" 12 ", 12),
        ("-5", -5),
        ("1e12", 1e12),
        (math.nan, 0),
        (math.inf, 0),
        ("Infinity", 0),
        ("abc", 0),
        ({}, 0),
        (10**400, 0),
        ("2026-04-27", ms(2026, 4, 27)),
        ("2025-12-31T23:59:59+08:00", ms(2025, 12, 31, 15, 59, 59)),
    ],
)
def test_created_at_ms_accepts_any_type(value: Any, expected: float) -> None:
    assert created_at_ms(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-04", ms(2026, 4, 1)),
        ("2026-02-30", ms(2026, 3, 2)),
        ("2026-04-31T00:00:00Z", ms(2026, 5, 1)),
        ("2026-04-27 00:00:00Z", ms(2026, 4, 27)),
        ("2026-04-27T08:30", ms(2026, 4, 27, 8, 30)),
        ("2026-04-27T24:00:00Z", ms(2026, 4, 28)),
        ("2026-04-27T00:00:00.1239Z", ms(2026, 4, 27) + 123),
        ("2026-04-27T00:00:00-0130", ms(2026, 4, 27, 1, 30)),
        ("-000001-01-01", -62198755200000.0),
        ("1600-02-29", ms(1600, 2, 29)),
    ],
)
def test_parse_date_accepts_iso_formats(text: str, expected: float) -> None:
    assert parse_date(text) == expected


@pytest.mark.parametrize(
    "text",
    ["2026-13-01", "2026-00-01", "2026-01-32", "2026-01-01T24:00:01", "2026-01-01T23:60", "20260101", "+999999-01-01"],
)
def test_parse_date_of_anything_else_is_nan(text: str) -> None:
    assert math.isnan(parse_date(text))
