"""The index finds exactly the near-duplicates that the rule of E-34 finds pair by pair."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.recordings.readers import read_library
from lab.systems.openclaw.near_duplicate import NearDuplicates, says_the_same

# Few words, so that texts overlap, contain each other and repeat words; Chinese is compared by pairs of characters.
WORDS = st.sampled_from(["deploy", "harbor", "the", "a", "port", "鍋爐房", "鍋爐", "每週五", "<b>", "-", "Port"])
TEXTS = st.lists(WORDS, max_size=9).map(" ".join)


@given(st.lists(TEXTS, max_size=8), TEXTS)
def test_has_any_texts_equals_the_rule_pair_by_pair(texts: list[str], text: str) -> None:
    assert NearDuplicates(texts).has(text) == any(says_the_same(text, other) for other in texts)


@pytest.mark.parametrize(("data", "form"), [("realmem", "realmem"), ("operators", "lab")])
def test_has_real_texts_equals_the_rule(data: str, form: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(data)
    texts = [memory.text for recording in read_library(path, form).recordings for memory in recording.memories]
    random.Random(0).shuffle(texts)
    known, others = texts[:80], texts[80:280]
    edited = [" ".join(text.split()[:-1]) for text in known] + [f"{text} today" for text in known]
    index = NearDuplicates(known)
    expected = [any(says_the_same(text, other) for other in known) for text in (*others, *edited)]
    assert [index.has(text) for text in (*others, *edited)] == expected
    assert 0 < sum(expected) < len(expected)
