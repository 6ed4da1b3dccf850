"""JavaScript's formatting of numbers and texts, on which the plugin's bytes depend."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.systems.openclaw.js import js_json, number_text, round6, text_or_blank


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"),
        (2, "2"),
        (-0.0, "0"),
        (0.1, "0.1"),
        (-1.5, "-1.5"),
        (0.000001, "0.000001"),
        (0.0000001, "1e-7"),
        (0.00001234, "0.00001234"),
        (1.5e-9, "1.5e-9"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.25e22, "1.25e+22"),
        (999999999999999900000.0, "999999999999999900000"),
        (123456.789, "123456.789"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (2**53 + 1, "9007199254740992"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (10**400, "Infinity"),
    ],
)
def test_number_text_is_what_javascript_prints(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_number_text_reads_back_as_the_number(value: float) -> None:
    assert float(number_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"score": 2.0, "list": [1.0, None, True]}, '{"score":2,"list":[1,null,true]}'),
        ([math.nan, math.inf, ()], "[null,null,[]]"),
        ('"\\\n\x1f\x7f\u2028\ud800é', '"\\"\\\\\\n\\u001f\x7f\u2028\\ud800é"'),
    ],
)
def test_js_json_is_what_stringify_writes(value: Any, text: str) -> None:
    assert js_json(value) == text


@given(st.recursive(st.none() | st.booleans() | st.integers(0, 99) | st.text(), lambda one: st.lists(one, max_size=3)))
def test_js_json_reads_back_as_the_value(value: Any) -> None:
    assert json.loads(js_json(value)) == value


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(math.nan, 0), (math.inf, 0), (0.0078125, 0.007813), (-0.0078125, -0.007813), (1e30, 1e30), (3, 3), (1e-9, 0)],
)
def test_round6_rounds_half_up_and_endless_to_0(value: float, rounded: float) -> None:
    assert round6(value) == rounded


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0, ""), (False, ""), (math.nan, ""), ([], ""), (2.0, "2"), (True, "true"), ([1.0, None], "1,")],
)
def test_text_or_blank_of_what_counts_as_false_is_blank(value: Any, text: str) -> None:
    assert text_or_blank(value) == text
    assert text_or_blank({}) == "[object Object]"
