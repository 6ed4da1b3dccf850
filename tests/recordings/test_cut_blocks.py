"""Tests of blocks that the budget truncated anywhere: the block is removed, and the surrounding text is kept."""

from __future__ import annotations

import random

import pytest

from lab.base.utf16 import js_length
from lab.recordings.cleaning import clean_user_text
from lab.systems.openclaw.recall.block import wrap

COMMENT = (
    '<!-- openclaw-mem-engine:autoRecall {"v":1,"skipped":false,"tiersSearched":["must_remember","nice_to_have"],'
    '"whyTheseIds":[{"id":"0b0e9a3c-1111-4000-8000-000000000001","tier":"must"}],"injectedCount":3} -->'
)
TEXTS = (
    "The gate sticks when it <rains> & freezes",
    'constraints:\n- 窯爐只在早上開 🔥\n- never push to main\nopen_questions:\n- which "colour"?',
    "I prefer the green glaze; it isn't dear",
    "Call the miller, 3. about the [stage|lights]",
)
WORDS = "Which glaze?\n\nAnd --> why </b>?\n1. first\n2. second"


def cut_at(text: str, units: int) -> str:
    """Return the first UTF-16 units of a text, as JavaScript slices it."""
    return text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "surrogatepass")


def context(comment: str, texts: tuple[str, ...]) -> str:
    block = wrap([("fact", "nice_to_have", text) for text in texts])
    return f"{comment}\n{block}" if comment else block


@pytest.mark.parametrize("comment", ["", COMMENT])
@pytest.mark.parametrize("before", ["", "Before it.\n"])
def test_clean_block_truncated_anywhere_keeps_surrounding_text(comment: str, before: str) -> None:
    whole = context(comment, TEXTS)
    # The plugin refuses budgets below 300; a short comment may be truncated anywhere after its opening brace.
    for units in range(60 if comment else 97, js_length(whole) + 1):
        found = clean_user_text(f"{before}{cut_at(whole, units)}\n\n{WORDS}")
        assert found.text.split() == f"{before} {WORDS}".split(), units
        assert found.text.endswith(WORDS)


@pytest.mark.parametrize("comment", ["", COMMENT])
def test_clean_truncated_block_alone_gives_empty_text(comment: str) -> None:
    whole = context(comment, TEXTS)
    for units in range(60 if comment else 97, js_length(whole) + 1):
        assert clean_user_text(cut_at(whole, units)).text == "", units


def test_clean_two_truncated_blocks_removes_both() -> None:
    # A host with two hooks per turn puts the block before the prompt twice.
    whole = context("", TEXTS)
    for units in range(97, js_length(whole)):
        piece = cut_at(whole, units)
        assert clean_user_text(f"{piece}\n\n{piece}\n\n{WORDS}").text == WORDS, units


def test_clean_blank_line_at_default_budget_ends_the_block() -> None:
    texts = ("short", "a memory\n\nof two parts " + "and on " * 400)
    for comment in ("", COMMENT):
        piece = cut_at(context(comment, texts), 1800)
        assert clean_user_text(f"{piece}\n\n{WORDS}").text == WORDS


def test_clean_blank_line_inside_a_memory_does_not_end_the_block() -> None:
    piece = cut_at(context("", ("a memory\n\nof two parts", "another", "the last one, cut")), 200)
    assert clean_user_text(f"{piece}\n\n{WORDS}").text == WORDS


def test_clean_truncated_block_after_complete_one_removes_both() -> None:
    whole = context(COMMENT, TEXTS)
    text, stripped = clean_user_text(f"{whole}\n\n{cut_at(whole, 500)}\n\n{WORDS}")
    assert (text, stripped) == (WORDS, {"relevant-memories block": 2, "receipt comment": 2})


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[auto-recall]\n- cut o\n\nWhich?", "Which?"),
        ("<active_memory_plugin>\ncut o\n\nWhich?", "Which?"),
        ("[auto-recall]\n- a\n\n- b\n[/auto-recall]\n\nWhich?", "Which?"),
    ],
)
def test_clean_other_truncated_blocks_end_at_a_blank_line(text: str, kept: str) -> None:
    assert clean_user_text(text).text == kept


@pytest.mark.parametrize(
    "text",
    [
        "What does <relevant-memories> mean?",
        "<relevant-memories>",
        "<relevant-memories>\nis a tag of the plugin",
        "<relevant-mem",
        "<!-- openclaw-mem-engine:autoRecall is a comment",
    ],
)
def test_clean_text_that_mentions_a_block_is_kept(text: str) -> None:
    assert clean_user_text(text) == (text, {})


def test_clean_random_text_without_a_block_is_kept() -> None:
    chance = random.Random(7)
    parts = ["a", "\n", "\n\n", "1. [a|b] ", "-->", "memory-policy:", "relevant-memories>", "<!-- ", "窯"]
    for _ in range(500):
        text = "".join(chance.choices(parts, k=20)).strip()
        assert clean_user_text(text) == (text, {})
