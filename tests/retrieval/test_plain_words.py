"""The words by which facts, entities and packs compare texts."""

from __future__ import annotations

from lab.retrieval.sentence_words import stems, words


def test_words_of_any_script_are_whole_and_chinese_is_pairs() -> None:
    text = "The Café in Zürich uses tool_x, привет: 陶盆種 a ｖ2"
    assert words(text) == ["café", "zürich", "uses", "tool", "x", "привет", "陶盆", "盆種", "v2"]


def test_stems_leave_out_denials_and_endings() -> None:
    assert stems("We never walked to the cafés") == stems("walking to cafés") == {"walk", "cafés"}
