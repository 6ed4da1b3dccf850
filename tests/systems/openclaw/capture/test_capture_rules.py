"""Tests of the pure rules of capture: cleaning, candidates, categories, bounds, and what counts as the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.base.utf16 import js_length
from lab.systems.openclaw.capture.candidates import (
    MAX_CANDIDATES,
    detect_bounded,
    detect_category,
    is_tool_like,
    normalise,
    plugin_spans,
    split_candidates,
    strip_all,
    strip_injected,
    tagged_spans,
)
from lab.systems.openclaw.capture.pipeline import Bounds, Message, scan
from lab.systems.openclaw.capturing import cut_whole
from lab.systems.openclaw.near_duplicate import is_near_duplicate, is_near_duplicate_cjk
from lab.systems.openclaw.recall.block import wrap
from tests.conformance.plugin_rules import read_messages

OPEN, CLOSE = "<relevant-memories>", "</relevant-memories>"
COMMENT = '<!-- openclaw-mem-engine:autoRecall {"schema":"x"} -->'


@pytest.mark.parametrize(
    ("text", "plugin", "seed"),
    [
        (f"a{OPEN}\nx\n{CLOSE}b", "a b", "a b"),
        (f"{COMMENT}\nI like tea", " \nI like tea", "I like tea"),
        (f"a {OPEN}\n1. [fact|unknown] I prefer x", f"a {OPEN}\n1. [fact|unknown] I prefer x", "a"),
        (f"{OPEN}{OPEN}x{CLOSE} I prefer y{CLOSE} z", f"  I prefer y{CLOSE} z", "z"),
        ("a\n```json\nI prefer x\n```\nb", "a\n```json\nI prefer x\n```\nb", "a\nb"),
        ("a\n~~~\nI prefer x", "a\n~~~\nI prefer x", "a"),
        ("use ```x``` now", "use ```x``` now", "use ```x``` now"),
        ("```x``` is code\nI prefer tea", "```x``` is code\nI prefer tea", "```x``` is code\nI prefer tea"),
        ("<!-- openclaw-mem-engine:autoRecall cut\nI prefer tea", None, "I prefer tea"),
        (
            'Conversation info (untrusted metadata):\n```json\n{"id": 1}\n```\n\nI like tea',
            None,
            "I like tea",
        ),
    ],
)
def test_clean_removes_injected_text_by_profile(text: str, plugin: str | None, seed: str) -> None:
    assert strip_injected(text) == (text if plugin is None else plugin)
    assert strip_all(text) == seed


@given(st.lists(st.tuples(st.sampled_from(["fact", "todo"]), st.text(max_size=40)), max_size=4), st.text(max_size=30))
def test_clean_of_seed_leaves_nothing_of_a_block_however_it_is_cut(
    memories: list[tuple[str, str]], prompt: str
) -> None:
    marked = [(category, "unknown", f"LEAKED {text} LEAKED") for category, text in memories]
    block = wrap(marked)
    for end in range(len(OPEN), len(block) + 1, 7):
        assert "LEAKED" not in strip_all(f"{block[:end]}\n\n{prompt.replace('LEAKED', '')}")


@pytest.mark.parametrize(
    ("text", "plugin", "seed"),
    [
        ("一句話。我喜歡茶。", ["一句話。我喜歡茶。"], ["一句話。", "我喜歡茶。"]),
        ("他說「好。」我不要！？真的", ["他說「好。」我不要！？真的"], ["他說「好。」", "我不要！？", "真的"]),
        ("One. Two! v1.2 ok", ["One.", "Two!", "v1.2 ok"], ["One.", "Two!", "v1.2 ok"]),
        ("一句。二句。\n三句。四句。", ["一句。二句。", "三句。四句。"], ["一句。二句。", "三句。四句。"]),
        (" \n\u3000\ufeff\n", [], []),
    ],
)
def test_split_candidates_by_profile(text: str, plugin: list[str], seed: list[str]) -> None:
    assert split_candidates(text) == plugin
    assert split_candidates(text, chinese=True) == seed
    assert [span.text for span in tagged_spans(text)] == seed


@given(st.text(alphabet="ab。！.!? \n\r\t\u3000\u2028", max_size=60))
def test_split_candidates_lose_only_white_space(text: str) -> None:
    for chinese in (False, True):
        parts = split_candidates(text, chinese=chinese)
        if len(parts) < MAX_CANDIDATES:
            assert "".join("".join(parts).split()) == "".join(text.split())


def test_split_candidates_stops_at_sixteen() -> None:
    assert len(split_candidates("line\n" * 20)) == len(tagged_spans("line\n" * 20)) == 16


def test_normalise_counts_utf16_units_and_keeps_foreign_space() -> None:
    assert normalise(" I\u3000 prefer\ufefftea ", 12) == "I prefer tea"
    assert normalise("\U0001f680" * 6, 12) == "\U0001f680" * 6
    assert normalise("\U0001f680" * 6, 11) is None
    assert normalise("a\u001cb", 5) == "a\u001cb"


@pytest.mark.parametrize(
    ("text", "plugin", "seed"),
    [
        ("我喜歡深色模式", None, "preference"),
        ("我們決定採用 SQLite", None, "decision"),
        ("提醒我明天開會", None, "todo"),
        ("x待辦x", "todo", "todo"),
        ("TODO：買牛奶", "todo", "todo"),
        ("I prefer what we decided to do: todo", "todo", "todo"),
        ("hi prefer", None, None),
        ("we\u2019ll go", None, None),
        ("I \u212aeep", None, None),
    ],
)
def test_categories_of_chinese_are_dead_in_the_plugin_only(text: str, plugin: str | None, seed: str | None) -> None:
    assert (detect_bounded(text), detect_category(text)) == (plugin, seed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("```json", True),
        ('{"tool":"x","v":1}', True),
        ('{"tools":"x"}', False),
        ("exit code 1", True),
        ("中文stdout中文", True),
        ("my stdoutx", False),
        ("we decided to log errors", False),
    ],
)
def test_is_tool_like_by_words_and_forms(text: str, expected: bool) -> None:
    assert is_tool_like(text) is expected


def test_spans_take_the_scope_of_the_line_then_of_the_line_before_then_of_the_message() -> None:
    text = (
        "[SCOPE: a]\nTODO: one\nTODO: two\n[ISO: b]\n\n- [x] [SCOPE: c] TODO: three\n[SCOPE: d]\nTODO: four\nTODO: five"
    )
    found = [(span.text, span.scope) for span in tagged_spans(text)]
    # ISO wins over SCOPE as the tag of the message, wherever it stands (E-30).
    assert found == [
        ("TODO: one", "a"),
        ("TODO: two", "b"),
        ("TODO: three", "c"),
        ("TODO: four", "d"),
        ("TODO: five", "b"),
    ]
    assert {span.scope for span in plugin_spans(text)} == {"a", "b", "c", "d"}
    assert plugin_spans(text)[1] == ("TODO: one", "b", False)
    assert plugin_spans(text)[4].text == "- [x] [SCOPE: c] TODO: three"


def test_scan_takes_new_messages_first_and_cuts_whole_sentences_under_seed() -> None:
    messages = [Message(("Old one. Old two. Old three.",), "t0"), Message(("New.",), "t1")]
    old_first = scan(messages, Bounds(units=20))
    assert [text.text for text in old_first.texts] == ["Old one. Old two. Ol"]
    assert (old_first.messages, old_first.truncated) == (1, 8 + 4)
    new_first = scan(messages, Bounds(units=20, newest_first=True, cut=cut_whole))
    assert [text.text for text in new_first.texts] == ["Old one.", "New."]
    assert new_first.truncated == js_length("Old one. Old two. Old three.") - js_length("Old one.")


def test_scan_counts_messages_and_blocks_that_it_leaves_out() -> None:
    event = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "no"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "two"}, {"type": "image"}, {"type": "text", "text": "three"}],
        },
        "broken",
        {"role": "user", "content": {"text": "no list"}},
    ]
    scanned = scan(read_messages(event), Bounds(messages=2, blocks=1))
    assert [text.text for text in scanned.texts] == ["two"]
    assert scanned[1:] == (2, 1, 3, 1, 5)


def test_near_duplicates_of_chinese_overlap_in_pairs_under_seed() -> None:
    one, other = (
        "我們決定每週五下午四點以後停止部署任何服務到正式的生產環境裡面",
        "我們決定每週五下午四點以後停止部署所有服務到正式的生產環境裡面",
    )
    assert not is_near_duplicate(one, other, 0.8)
    assert is_near_duplicate_cjk(one, other, 0.8)
    assert is_near_duplicate("I prefer tabs", "i PREFER, tabs!", 0.92)
    assert is_near_duplicate(
        "The retry policy has three attempts", "Note: the retry policy has three attempts now", 0.99
    )


def test_rules_take_time_in_proportion_to_hostile_texts() -> None:
    for text in (OPEN * 2500, COMMENT[:20] * 2000, "```\n" * 12_000, "[[" * 24_000, "a." * 24_000):
        strip_injected(text)
        tagged_spans(strip_all(text))
