"""Patterns that are compiled on first use."""

from __future__ import annotations

import copy
import pickle
import re

import pytest

from lab.base.regex import regex


def test_regex_works_as_a_compiled_pattern() -> None:
    pattern = regex(r"(?P<letter>[a-z])(\d)?", re.IGNORECASE)
    compiled = re.compile(r"(?P<letter>[a-z])(\d)?", re.IGNORECASE)
    for _ in range(2):
        assert pattern.findall("A1 b") == compiled.findall("A1 b")
        assert pattern.sub(r"<\g<letter>>", "A1 b") == "<A> <b>"
        assert (pattern.groups, pattern.groupindex, pattern.flags) == (2, {"letter": 1}, compiled.flags)
    assert regex(rb"\d+").findall(b"12 3") == [b"12", b"3"]


def test_regex_is_compiled_on_first_use() -> None:
    pattern = regex("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        pattern.search("")


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda pattern: pickle.loads(pickle.dumps(pattern))])
def test_copied_regex_works_before_and_after_first_use(copied) -> None:
    pattern = regex("b+")
    assert copied(pattern).search("abbc")[0] == "bb"
    assert pattern.search("abbc")[0] == "bb"
    assert copied(pattern).search("abbc")[0] == "bb"
