"""Clamping the text that is embedded: head, mark and tail, within limits of units and bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.utf16 import js_length, js_utf8
from lab.retrieval.clamp import MARK, Clamp, clamp
from tests.conformance.plugin_rules import is_too_long


@pytest.mark.parametrize(
    ("text", "limits", "kept"),
    [
        ("short", Clamp(), "short"),
        ("x" * 6001, Clamp(), "x" * 500 + MARK + "x" * 5495),
        ("abcdefghij" * 3, Clamp(20, 8), "abcdefgh" + MARK + "defghij"),
        ("abcdefghij", Clamp(4, 0), "ghij"),
        ("abcdefghij", Clamp(9, 4), "abcd"),
        ("abcdefghij", Clamp(4, 9), "abcd"),
        ("abcdefghij", Clamp(0, 5), "a"),
        # Bytes: the longest tail if there is no mark, else a shorter head and the remaining bytes for the tail.
        ("中文字中文字", Clamp(10, 4, 8), "文字"),
        ("中" * 40, Clamp(20, 6, 30), "中" * 6 + MARK + "中" * 2),
        ("中" * 40, Clamp(20, 6, 4), "中"),
        ("ab" + MARK + "cd" + MARK + "e" * 30, Clamp(60, 8, 20), "ab" + MARK + "cd"),
        ("😀" * 10, Clamp(9, 1), "\ud83d" + MARK + "\ude00😀"),
        ("abc", Clamp(6000, 500, -1), "abc"),
    ],
)
def test_clamp_keeps_head_mark_and_tail(text: str, limits: Clamp, kept: str) -> None:
    clamped = clamp(text, limits)
    assert clamped.text == kept
    assert (clamped.clipped, clamped.clamped_chars) == (kept != text, js_length(kept))
    assert (clamped.original_bytes, clamped.clamped_bytes) == (len(js_utf8(text)), len(js_utf8(kept)))


@given(st.text(max_size=80), st.integers(1, 60), st.integers(0, 70), st.none() | st.integers(1, 90))
def test_clamp_result_is_within_the_limits(text: str, chars: int, head: int, octets: int | None) -> None:
    clamped = clamp(text, Clamp(chars, head, octets))
    assert clamped.clamped_chars <= max(chars, clamped.original_chars if not clamped.clipped else 0)
    assert octets is None or clamped.clamped_bytes <= octets
    assert clamped.limits.head_chars <= clamped.limits.max_chars == chars


@pytest.mark.parametrize(
    ("message", "too_long"),
    [
        ("This model's maximum context length is 8192 tokens", True),
        ("MAX CONTEXT LENGTH exceeded", True),
        ("you requested 9000 tokens", True),
        ("Requested  12\u00a0tokens", True),
        ("requested 12tokens", False),
        ("requested \u0663 tokens", False),
        ("then reduce the length of the messages.", False),
        ("Please reduce the length of the messages.", True),
        ("requested many tokens", False),
        ("rate limit reached", False),
        ("", False),
    ],
)
def test_is_too_long_recognises_error_messages(message: str, too_long: bool) -> None:
    assert is_too_long(message) is too_long
