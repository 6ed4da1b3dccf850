"""Words of the text lane: those of LanceDB's index, and those of its scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.retrieval.quiet import quiet_lance
from lab.retrieval.tokens import (
    ENGLISH,
    JOINED,
    MARK,
    ScanWords,
    TextSettings,
    Tokens,
    searchable,
    table_with_index,
    words_of,
    words_of_each,
    words_under,
)

FUNCTION_WORDS = "the and of is with they this"
TOPIC_WORDS = ["will", "die", "bin", "not"]


def words(text: str, settings: TextSettings | None = None) -> list[str]:
    tokens = Tokens(settings or TextSettings())
    tokens.prepare([text])
    return tokens.of([text])[0]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with quiet_lance():
        return table_with_index(str(tmp_path_factory.mktemp("table")), TextSettings())


def test_tokens_split_a_chinese_sentence_into_several_words() -> None:
    tokens = words("我們決定使用資料庫儲存記憶")
    assert "".join(tokens) == "我們決定使用資料庫儲存記憶"
    assert len(tokens) >= 5
    assert {"決定", "使用", "記憶"} <= set(tokens)


def test_tokens_drop_english_stop_words_and_keep_topic_words() -> None:
    text = f"{FUNCTION_WORDS} {' '.join(TOPIC_WORDS)}"
    assert words(text, TextSettings(stem=False)) == TOPIC_WORDS


def test_tokens_with_stop_words_none_keep_every_word() -> None:
    text = f"{FUNCTION_WORDS} {' '.join(TOPIC_WORDS)}"
    assert words(text, TextSettings("none", stem=False)) == text.split()


def test_tokens_are_english_stems_unless_switched_off() -> None:
    assert words("Rolling back the migrations") == ["roll", "back", "migrat"]
    assert words("Rolling back the migrations", TextSettings(stem=False)) == ["rolling", "back", "migrations"]


def test_tokens_fold_case_and_accents_and_keep_repetitions_in_order() -> None:
    assert words("Zürich, zurich; CAFÉ-café 42") == ["zurich", "zurich", "cafe", "cafe", "42"]


@pytest.mark.parametrize("text", ["", "   ", "!!! … 。，", "the of and", "x" * 41])
def test_tokens_of_a_text_without_words_are_empty(text: str) -> None:
    assert words(text) == []


def test_stop_words_are_distinct_lower_case_and_carry_no_topic() -> None:
    assert len(set(ENGLISH)) == len(ENGLISH)
    assert [word for word in ENGLISH if not word.isascii() or word != word.lower()] == []
    assert not {*TOPIC_WORDS, "no", "nor", "never", "dog", "cat", "man", "war"} & set(ENGLISH)


def test_prepare_tokenises_only_new_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    tokens = Tokens(TextSettings())
    assert tokens.prepare(["deploy gateway", "deploy gateway", "備份"]) == 2
    assert tokens.prepare(["備份", "rollback"]) == 1
    # Another process later reads what is on disk.
    again = Tokens(TextSettings())
    assert again.prepare(["deploy gateway", "備份", "rollback"]) == 0
    assert again.of(["rollback", "deploy gateway"]) == [["rollback"], ["deploy", "gateway"]]


@given(st.lists(st.text(max_size=20) | st.sampled_from(["", MARK, f"a {MARK.upper()}", "\u0301e", "板遊"]), max_size=5))
def test_words_of_each_are_those_of_each_text_alone(table: Any, texts: list[str]) -> None:
    assert words_of_each(table, texts) == [words_of(table, searchable(text)) for text in texts]


def test_words_of_each_takes_one_call_for_many_texts(table: Any) -> None:
    calls: list[str] = []

    class Counting:
        def tokenize(self, text: str, column: str) -> Any:
            calls.append(text)
            return table.tokenize(text, column=column)

    texts = [f"deploy gateway {number}" for number in range(2 * JOINED)]
    assert words_of_each(Counting(), texts)[-1] == ["deploy", "gateway", f"{2 * JOINED - 1}"]
    assert len(calls) == 2


def test_tokens_of_different_settings_are_cached_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    text = "the migrations"
    tokens = {settings: words(text, settings) for settings in (TextSettings(), TextSettings("none"))}
    assert tokens == {TextSettings(): ["migrat"], TextSettings("none"): ["the", "migrat"]}
    assert words(text, TextSettings()) == ["migrat"]


def test_text_that_was_not_prepared_is_tokenised_when_it_is_asked_for() -> None:
    text = "nobody ever prepared this sentence, wherever the cache is: 7f3a"
    assert Tokens(TextSettings()).of([text]) == [words(text)]


def test_private_text_is_tokenised_again_by_whoever_opens_the_cache_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path))
    text = "the harbour password is heron"
    first, second = (Tokens(TextSettings(), lambda said: "password" in said) for _ in range(2))
    assert first.prepare([text]) == 1
    assert second.of([text]) == first.of([text])
    assert not any(b"heron" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Deploy v4.12 to gateway_eu-1", ["Deploy", "v4", "12", "to", "gateway", "eu", "1"]),
        ("don't", ["don", "t"]),
        ("我們決定，使用 LanceDB", ["我們決定", "使用", "LanceDB"]),
        ("the the The", ["the", "the", "The"]),
        ('"exactly this"', []),
        ('say "exactly this"', ["say", "exactly", "this"]),
        ('"', []),
        ("", []),
        ("🚀 ---", []),
    ],
)
def test_scan_words_split_at_non_alphanumeric_characters(text: str, expected: list[str]) -> None:
    scan = ScanWords()
    assert (scan.prepare([text]), scan.of([text])) == (0, [expected])


def test_words_under_selects_the_splitter_of_the_lane() -> None:
    assert type(words_under(TextSettings())) is Tokens
    assert type(words_under(TextSettings(lane="scan"))) is ScanWords
