"""The estimate of tokens for each script."""

from __future__ import annotations

import pytest

from lab.base.token_estimate import _CJK, most_ascii, tokens
from lab.systems.openclaw.near_duplicate import CJK_RUN


def test_tokens_of_ascii_chinese_and_other_scripts() -> None:
    assert [tokens(text) for text in ("", "a", "abcdefgh", "茶山茶山", "abcd茶山", "éé", "😀")] == [0, 1, 3, 4, 3, 2, 1]


def test_tokens_cjk_ranges_match_near_duplicates() -> None:
    # Three CJK characters give two tokens plus one; three others give one plus one.
    edges = [ord(end) + step for end in _CJK.pattern.strip("[]+") if end != "-" for step in (-1, 0, 1)]
    assert [tokens(chr(code) * 3) for code in edges] == [3 if CJK_RUN.fullmatch(chr(code)) else 2 for code in edges]


@pytest.mark.parametrize("count", [1, 2, 128, 1200])
def test_most_ascii_is_the_longest_text_of_a_count(count: int) -> None:
    assert tokens("x" * most_ascii(count)) == count
    assert tokens("x" * (most_ascii(count) + 1)) == count + 1
