"""Formatting of numbers and texts."""

from __future__ import annotations

import pytest

from lab.base.formatting import (
    bracketed,
    choices,
    code,
    counted,
    interval,
    markdown,
    milliseconds,
    number,
    p_value,
    sentence,
    signed,
    visible,
)


@pytest.mark.parametrize(
    ("value", "plain", "with_sign"),
    [
        (0.12345, "0.123", "+0.123"),
        (-0.5, "-0.500", "-0.500"),
        (99.9, "99.900", "+99.900"),
        (100.4, "100", "+100"),
        (-12345.6, "-12,346", "-12,346"),
        (None, "–", "–"),
    ],
)
def test_number_has_three_decimals_or_none_from_100(value: float | None, plain: str, with_sign: str) -> None:
    assert (number(value), signed(value)) == (plain, with_sign)


def test_interval_without_a_bound_is_a_dash() -> None:
    assert interval(-0.01, 0.0204) == "-0.010 … +0.020"
    assert interval(None, 0.1) == interval(0.1, None) == "–"
    assert bracketed(-0.01, 0.0204) == " [-0.01 +0.02]"
    assert bracketed(None, 0.1) == ""


def test_choices_name_the_nearest_first() -> None:
    arms = ["tier_first_v1", "tier_quota_v1", "hybrid"]
    assert choices("tier_qouta_v1", arms) == "did you mean 'tier_quota_v1'? known: tier_first_v1, tier_quota_v1, hybrid"
    assert choices("HYBRID", arms, "it has") == "did you mean 'hybrid'? it has: tier_first_v1, tier_quota_v1, hybrid"
    assert choices("oracle", arms) == "known: tier_first_v1, tier_quota_v1, hybrid"


@pytest.mark.parametrize(("value", "shown"), [(0.0, "<0.001"), (0.00099, "<0.001"), (0.001, "0.001"), (1.0, "1.000")])
def test_p_value_is_never_zero(value: float, shown: str) -> None:
    assert p_value(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0042, "0.004"), (0.126, "0.13"), (4.56, "4.6"), (45.6, "45.6"), (456.7, "457"), (4567.8, "4,568")],
)
def test_milliseconds_keep_two_significant_digits(value: float, shown: str) -> None:
    assert milliseconds(value) == shown


def test_markdown_escapes_markup() -> None:
    assert markdown("a|b *c* [d](e) `f` <g> & h\\\r\ni_j") == (
        "a\\|b \\*c\\* \\[d\\](e) \\`f\\` &lt;g&gt; &amp; h\\\\  i\\_j"
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("lab score x", "`lab score x`"),
        ("a `b` <i>|", "`` a `b` <i>| ``"),
        ("``` x", "```` ``` x ````"),
        ("one\ntwo", "```\none\ntwo\n```"),
        ("one\n```\n<b>", "````\none\n```\n<b>\n````"),
    ],
)
def test_code_cannot_be_ended_by_its_text(text: str, shown: str) -> None:
    assert code(text) == shown


@pytest.mark.parametrize(
    "mark", ["\x07", "\x1b", "\r", "\x85", "\u061c", "\u200f", "\u202e", "\u2029", "\u2069", "\ufeff"]
)
def test_visible_shows_what_controls_a_line_as_an_escape(mark: str) -> None:
    assert visible(f"a{mark}b\n\tc") == f"a\\u{ord(mark):04x}b\n\tc"


def test_counted_agrees_with_its_number() -> None:
    assert [counted(1, "memory"), counted(2, "memory"), counted(0, "probe")] == ["1 memory", "2 memories", "0 probes"]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("two arms differ", "Two arms differ."),
        ("Nothing changed.", "Nothing changed."),
        ("errors.rate: 40 of 440 recalls", "errors.rate: 40 of 440 recalls."),
        ("tier_quota_v1 lost two hits", "tier_quota_v1 lost two hits."),
        ("done.", "Done."),
    ],
)
def test_sentence_has_a_capital_and_a_full_stop_but_names_stay(clause: str, expected: str) -> None:
    assert sentence(clause) == expected
