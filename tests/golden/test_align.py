"""Tests of the alignment of captured items with judged memories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.replay.writes import LEAST, Aligner, Alignment, f1, words

TURNS = ("c/s/t1", "c/s/t2", "c/s/t3")
JUDGED = {
    "c/s/t1#0": "The lamp in the attic is red",
    "c/s/t1#1": "The door of the shop is green",
    "c/s/t2#0": "Anna drinks tea at five",
    # Without a known turn: one key names only a session, the other a turn that the recording does not have.
    "c/s#0": "Ben keeps bees behind the barn",
    "c/s/t9#0": "The train leaves at noon",
}


def aligned(text: str, *sources: str, judged: dict[str, str] | None = None) -> Alignment | None:
    return Aligner(judged or JUDGED, TURNS).align(text, sources)


def test_align_uses_the_memory_of_the_source_turn() -> None:
    assert aligned("no word of it", "c/s/t2") == ("c/s/t2#0", "source", 0.0)
    found = aligned("Anna drinks tea", "c/s/t2")
    assert found == ("c/s/t2#0", "source", pytest.approx(2 * 3 / 8))


def test_align_several_memories_of_a_turn_highest_f1_wins() -> None:
    assert aligned("the green door", "c/s/t1") == ("c/s/t1#1", "source", pytest.approx(2 * 3 / 10))
    assert aligned("a red lamp", "c/s/t1") == ("c/s/t1#0", "source", pytest.approx(2 * 2 / 10))
    # The same holds across two source turns.
    assert aligned("tea at five, and the red lamp", "c/s/t1", "c/s/t2") == ("c/s/t2#0", "source", pytest.approx(6 / 12))


def test_align_source_turn_beats_higher_f1_elsewhere() -> None:
    assert aligned(JUDGED["c/s#0"], "c/s/t2") == ("c/s/t2#0", "source", 0.0)


def test_align_item_without_judged_turn_uses_words() -> None:
    assert aligned("ben KEEPS bees, behind the barn!", "c/s/t3") == ("c/s#0", "text", 1.0)
    assert aligned("The train leaves at noon", "elsewhere") == ("c/s/t9#0", "text", 1.0)
    assert aligned("The train leaves at noon") == ("c/s/t9#0", "text", 1.0)
    assert aligned("something else altogether", "c/s/t3") is None


def test_align_by_words_ignores_memories_with_known_turn() -> None:
    """The memory has a known turn, which is not a source of the item, so equal words are a coincidence."""
    assert aligned(JUDGED["c/s/t2#0"], "c/s/t3") is None


@pytest.mark.parametrize(("common", "found"), [(5, None), (6, ("k", "text", LEAST)), (7, ("k", "text", 0.7))])
def test_align_at_the_least_f1_matches(common: int, found: tuple[str, str, float] | None) -> None:
    judged = {"k": " ".join(f"w{number}" for number in range(10))}
    text = " ".join([f"w{number}" for number in range(common)] + [f"x{number}" for number in range(10 - common)])
    assert aligned(text, judged=judged) == found


@pytest.mark.parametrize("sources", [("c/s/t1",), ()])
def test_align_ties_are_broken_by_key(sources: tuple[str, ...]) -> None:
    keys = [f"c/s/t1#{number}" if sources else f"c/s#{number}" for number in (2, 0, 1)]
    found = aligned("the same words", *sources, judged=dict.fromkeys(keys, "the same words"))
    assert found is not None
    assert found.memory == min(keys)


def test_align_without_judged_memories_returns_none() -> None:
    assert Aligner({}, TURNS).align("the lamp", ["c/s/t1"]) is None
    assert Aligner({"k": ""}, TURNS).align("", []) is None


def test_words_splits_cjk_characters() -> None:
    assert words("我喜歡茶 tea") == {"我": 1, "喜": 1, "歡": 1, "茶": 1, "tea": 1}
    assert list(words("さくら 서울 Straße d'été_2")) == ["さ", "く", "ら", "서", "울", "strasse", "d", "été", "2"]
    judged = {"c/s#0": "安娜每天下午五點喝茶", "c/s#1": "本在穀倉後面養蜜蜂"}
    assert aligned("安娜下午五點喝茶。", judged=judged) == ("c/s#0", "text", pytest.approx(2 * 8 / 18))
    assert aligned("火車中午開走了", judged=judged) is None


def test_words_counts_repeated_words() -> None:
    assert f1(words("tea tea tea"), words("tea")) == 0.5
    assert f1(words("tea tea"), words("TEA, tea!")) == 1.0
    assert f1(words("!"), words("?")) == 0.0


@given(st.text(), st.text())
def test_f1_is_symmetric_and_one_for_equal_texts(one: str, other: str) -> None:
    ours, theirs = words(one), words(other)
    assert f1(ours, theirs) == f1(theirs, ours)
    assert 0.0 <= f1(ours, theirs) <= 1.0
    assert f1(ours, ours) == (1.0 if ours else 0.0)
