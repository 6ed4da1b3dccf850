"""Tests of reading the memories in injected blocks: as the engine writes them, cut, and with a receipt comment."""

from __future__ import annotations

import json

import pytest

from lab.recordings.events import InjectedBlock
from lab.recordings.injected import read_blocks
from lab.systems.openclaw.recall.block import wrap

MEMORIES = (
    ("preference", "must_remember", 'Never water the <cactus> & don\'t "drown" it &lt;sic&gt;'),
    ("fact", "nice_to_have", "窯爐只在早上開"),
    ("decision", "unknown", "7. [odd] text"),
)
PLAIN = (MEMORIES[0], ("fact", "nice_to_have", "two\n\nlines | and [brackets]"), MEMORIES[2])
IDS = ("0b0e9a3c-1111-4000-8000-000000000001", "0b0e9a3c-1111-4000-8000-000000000002")
PROMPT = "Which pots?\n\n1. [fact|unknown] mine"


def comment(ids: tuple[str, ...], **tiers: int) -> str:
    value = {"skipped": False, "fusedTop": ids, "whySummary": {"byTier": tiers, "fromPrimaryScope": 1}}
    return f"<!-- openclaw-mem-engine:autoRecall {json.dumps(value)} -->"


def shown(block: InjectedBlock) -> list[tuple[str, str, str]]:
    return [(memory.category, memory.label, memory.text) for memory in block.memories]


def test_read_blocks_returns_what_was_wrapped() -> None:
    (block,) = read_blocks(f"{wrap(PLAIN)}\n\n{PROMPT}")
    assert (shown(block), block.cut, block.others) == (list(PLAIN), False, 0)


def test_read_blocks_without_a_block_is_empty() -> None:
    assert read_blocks(PROMPT) == ()


def test_read_blocks_leaves_out_the_working_set_and_documents() -> None:
    pinned = ("other", "must_remember", "constraints:\n- never push to main\nopen_questions:\n- which?")
    cited = ("fact", "unknown", "[docs|operator|md] The gate is shut at noon. (docs/gate.md#1)")
    (block,) = read_blocks(wrap([pinned, *PLAIN, cited]))
    assert (shown(block), block.others) == (list(PLAIN), 2)


def test_read_blocks_takes_ids_from_the_comment() -> None:
    (block,) = read_blocks(f"{comment(IDS, must=1, nice=1, unknown=1)}\n{wrap(PLAIN)}\n\n{PROMPT}")
    assert [memory.id for memory in block.memories] == [*IDS, ""]


@pytest.mark.parametrize("above", [comment(IDS, must=4), comment(IDS), "<!-- openclaw-mem-engine:autoRecall {} -->"])
def test_read_blocks_with_another_number_of_memories_has_no_ids(above: str) -> None:
    (block,) = read_blocks(f"{above}\n{wrap(PLAIN)}\n\n{PROMPT}")
    assert [memory.id for memory in block.memories] == ["", "", ""]


@pytest.mark.parametrize("above", ["", comment(IDS, must=1, nice=1, unknown=1) + "\n"])
def test_read_blocks_cut_anywhere_returns_complete_memories(above: str) -> None:
    whole = above + wrap(PLAIN)
    counts = set()
    for length in range(len(above) + 100, len(whole) - 1):
        (block,) = read_blocks(whole[:length])
        assert block.cut
        assert shown(block) == list(PLAIN)[: len(block.memories)]
        counts.add(len(block.memories))
    assert counts == {0, 1, 2}
