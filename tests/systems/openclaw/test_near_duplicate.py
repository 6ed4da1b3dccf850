"""Near-duplicates (E-34, E-59): equal words, one text in the other, or most words shared."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.systems.openclaw.near_duplicate import alike, normal_text, says_the_same, words_of

PIECES = (
    "deploy",
    "on",
    "thursdays",
    "Never!",
    "週五",
    "不要部署",
    "v2",
    "<b>",
    "a_b",
    "café",
    "，",
    "\U0001f600",
    "ＡＢ",
)


@pytest.mark.parametrize(
    ("text", "normal", "words"),
    [
        ("  Never, EVER push!\n", "never ever push", {"never", "ever", "push"}),
        ("see <b class='x'>bold</b> text", "see bold text", {"see", "bold", "text"}),
        ("an < open bracket", "an open bracket", {"an", "open", "bracket"}),
        ("a > b <c> d <e", "a b d e", {"a", "b", "d", "e"}),
        ("snake_case-name", "snake case name", {"snake", "case", "name"}),
        ("週五不要部署", "週五不要部署", {"週五", "五不", "不要", "要部", "部署"}),
        ("好", "好", {"好"}),
        ("設定檔config備份", "設定檔config備份", {"設定", "定檔", "config", "備份"}),
        ("café Ünal", "café ünal", {"café", "ünal"}),
        ("…!?", "", set()),
        ("", "", set()),
    ],
)
def test_normal_text_gives_text_and_words(text: str, normal: str, words: set[str]) -> None:
    normalised = normal_text(text)
    assert (normalised.text, normalised.words, normalised.length) == (normal, words, len(normal))
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Never push to main.", "never push to MAIN", True),
        # One text in the other: from twelve units on.
        ("use two spaces", "We use two spaces in every file of the shop", True),
        ("two spaces", "We use two spaces in every file of the shop", False),
        ("abcdefghijkl", "xx abcdefghijklm", True),
        ("abcdefghijk", "xx abcdefghijklm", False),
        # Four fifths of all words: 4 of 5, not 3 of 5 nor 4 of 6.
        ("a b c d", "d c b a e", True),
        ("a b c d", "c b a e d f", False),
        ("a b c f", "d c b a", False),
        ("閘道必須兩人審核", "閘道必須兩人審核才能部署", False),
        ("閘道必須兩人審核才能部署喔", "閘道必須兩人審核才能部署", True),
        ("port 8080 is taken", "port 8081 is taken", False),
        ("", "", False),
        ("…", "!", False),
        ("", "something", False),
    ],
)
def test_says_the_same_by_equality_containment_or_overlap(one: str, other: str, same: bool) -> None:
    assert says_the_same(one, other) is same
    assert says_the_same(other, one) is same


def test_says_the_same_with_other_thresholds() -> None:
    assert not says_the_same("a b c d", "d c b a e", jaccard=0.92)
    assert says_the_same("a b c f", "d c b a", jaccard=0.6)
    assert says_the_same("two spaces", "use two spaces here always please", contained=10)
    assert not says_the_same("use two spaces", "we use two spaces in all files now", contained=30)


@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
)
@settings(max_examples=100)
def test_says_the_same_is_symmetric_and_equals_the_definition(one: str, other: str) -> None:
    first, second = normal_text(one), normal_text(other)
    assert alike(first, second) == alike(second, first)
    assert alike(first, first) == bool(first.text)
    union = first.words | second.words
    expected = bool(first.text and second.text) and (
        first.text == second.text
        or (first.length >= 12 and first.text in second.text)
        or (second.length >= 12 and second.text in first.text)
        or len(first.words & second.words) >= 0.8 * len(union)
    )
    assert alike(first, second) == expected
