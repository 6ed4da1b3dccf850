"""Texts that hold more memories than their lists name: such a recall has failed, and an honest one has not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from lab.recordings.model import Memory, Recording, Turn
from lab.recordings.native import read
from lab.replay.unlisted import Texts
from lab.systems.contract import Item, Recall, Stored, Writes
from lab.systems.fixed import FixedArm, recall_of
from lab.systems.registry import BUILT_IN
from tests.playing import OPERATORS, arms_named, played

HARMLESS = "The oven is lit at four in the morning, before the first loaves."
STALE = "The deploy key is rotated on Mondays, and kept by the night operator."
NOTED = "Deliveries by the harbour road take forty minutes in winter."
CHINESE = "每個星期一輪換部署金鑰，由夜班值班人員保管，不得外流。"
SHORT = "Bo eats fish."
MEMORIES = tuple(
    Memory(f"c/s#{at}", text, text, 0, at) for at, text in enumerate((HARMLESS, STALE, NOTED, CHINESE, SHORT))
)
PROMPT = "what is there to do?"
TURN = Turn("c/s/0", 0, "s", "user", PROMPT, 1000)
LISTED = Item("c/s#0", HARMLESS)

# What a text says of a memory that its list does not name.
ATTACKS: dict[str, Callable[[str], str]] = {
    "as_it_is": lambda text: text,
    "escaped": lambda text: f"<b>&quot;{escape(text)}&quot;</b>",
    "folded": lambda text: "\n  ".join(text.upper().split()),
    "wide": lambda text: "".join(chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one for one in text),
    "with_invisible_characters": lambda text: "\u200b".join(text),
    "with_marks_between": lambda text: text.replace(" ", " ** "),
    "without_its_end": lambda text: text[: len(text) * 4 // 5],
    "without_its_beginning": lambda text: text[len(text) // 5 :],
}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_CACHE_DIR", str(tmp_path / "cache"))


class OthersArm(FixedArm):
    """An arm of another package."""


def failure_of(context: str, *, turn: Turn = TURN, **changes: object) -> str | None:
    """Why a recall that lists the first memory fails, whose text is that memory and ``context``."""
    said = replace(recall_of(LISTED), context=f"{HARMLESS}\n{context}", **changes)
    (answer,) = played(Recording("c", (turn,), MEMORIES), [OthersArm("fixed", otherwise=said)])
    return str(answer.failure) if answer.failure else None


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("text", [STALE, NOTED, CHINESE])
def test_memory_in_the_text_beyond_the_list_fails_the_recall(attack: str, text: str) -> None:
    assert failure_of(ATTACKS[attack](text)) == "unlisted_memory in recall"


@pytest.mark.parametrize("line", [SHORT, "- bo eats fish", '3. [fact|must] "Bo eats fish"', "rice; Bo eats fish; tea"])
def test_short_memory_fails_a_recall_as_a_line_or_item_of_its_own(line: str) -> None:
    assert failure_of(line) == "unlisted_memory in recall"
    assert failure_of(f"They say that {SHORT} They may be wrong.") is None


def test_item_that_claims_other_texts_or_sources_hides_nothing() -> None:
    """A list may not be made longer by what its items say of themselves."""
    told = Item("c/s#0", f"{HARMLESS} {STALE}", sources=("c/s#1",))
    assert failure_of(STALE, items=(told,)) == "unlisted_memory in recall"
    # A memory of the ranking that is not injected is not listed either.
    assert failure_of(STALE, items=(LISTED, Item("c/s#1", STALE))) == "unlisted_memory in recall"


def test_text_without_any_list_fails_the_recall() -> None:
    assert failure_of(STALE, items=(), injected=0) == "unlisted_memory in recall"


HONEST = {
    "listed": (STALE, {"items": (LISTED, Item("c/s#1", STALE)), "injected": 2}),
    "pinned": (STALE, {"pinned": ("c/s#1",)}),
    "prompt_repeated": (f"You asked: {STALE}", {"turn": replace(TURN, text=f"Is it true? {STALE}")}),
    "few_words": ("Ask the night operator about the deploy key.", {}),
    "own_words": ("The recording says nothing else of importance to this question, so far.", {}),
}


@pytest.mark.parametrize("case", HONEST)
def test_honest_text_passes(case: str) -> None:
    context, changes = HONEST[case]
    assert failure_of(context, **changes) is None  # type: ignore[arg-type]  # fields of a recall


@pytest.mark.parametrize("text", [STALE, CHINESE, SHORT])
def test_item_that_the_text_lacks_fails_the_recall(text: str) -> None:
    items = (LISTED, Item(next(memory.key for memory in MEMORIES if memory.text == text), text))
    assert failure_of("2 notes exist.", items=items, injected=2) == "unwritten_item in recall"
    # An item that is not injected need not be there.
    assert failure_of("2 notes exist.", items=items) is None


WRITTEN = {
    "in_other_words": "The key for deploying changes hands weekly.",
    "cut": STALE[:12],
    "escaped_and_folded": f"<b>{escape(STALE.upper())}</b>",
}


@pytest.mark.parametrize("case", WRITTEN)
def test_item_that_is_written_in_any_form_is_no_failure(case: str) -> None:
    items = (LISTED, Item("c/s#1", STALE))
    assert failure_of(WRITTEN[case], items=items, injected=2) is None


def test_memory_within_a_listed_one_is_no_evidence() -> None:
    whole = Texts()
    whole.add("long", f"{HARMLESS} {NOTED} {STALE}")
    whole.add("part", STALE)
    whole.add("same", f"{HARMLESS} {NOTED} {STALE}")
    assert whole.unlisted(f"1. {HARMLESS} {NOTED} {STALE}", ["long"], "") == set()
    # The long ones are not in the text.
    assert whole.unlisted(f"1. {STALE}", [], "") == {"part"}
    whole.remove("part")
    assert whole.unlisted(f"1. {STALE}", [], "") == set()


def test_changed_word_of_a_listed_memory_is_evidence() -> None:
    """The outdated memory often differs from the current one in a word."""
    texts = Texts()
    texts.add("now", "The invoices are sent on the first Monday of the month by Ana.")
    texts.add("then", "The invoices are sent on the last Friday of the month by Ana.")
    both = "The invoices are sent on the first Monday of the month by Ana. Sent on the last Friday of the month by Ana."
    assert texts.unlisted(both, ["now"], "") == {"then"}
    assert texts.unlisted(both[:62], ["now"], "") == set()


def test_forgotten_memory_and_searched_text_are_no_evidence() -> None:
    memories = (MEMORIES[0], replace(MEMORIES[1], index_text=NOTED), replace(MEMORIES[3], visible_until=0))
    said = replace(recall_of(Item("c/s#1", STALE)), context=f"{NOTED}\n{CHINESE}")
    (answer,) = played(Recording("c", (TURN,), memories), [OthersArm("fixed", otherwise=said)])
    assert answer.failure is None


def test_captured_memory_beyond_the_list_fails_the_recall() -> None:
    turns = tuple(replace(TURN, key=f"c/s/{seq}", seq=seq, time_ms=1000 + seq) for seq in range(3))
    writes = {
        "c/s/0": Writes(created=(Stored("own", HARMLESS), Stored("more", STALE))),
        "c/s/1": Writes(updated=(Stored("more", NOTED),)),
    }
    said = Recall((Item("own", HARMLESS),), 1, f"{HARMLESS} {STALE}")
    arm = OthersArm("fixed", {"c/s/1": said, "c/s/2": said}, writes=writes)
    answers = played(Recording("c", turns, ()), [arm], source="captured")
    # It was overwritten at the second turn.
    assert [str(answer.failure) if answer.failure else None for answer in answers] == [
        None,
        "unlisted_memory in recall",
        None,
    ]


def test_hostile_text_is_read_in_linear_time() -> None:
    texts = Texts()
    texts.add("short", SHORT)
    texts.add("long", STALE)
    for text in ("[" * 400_000, "[]" * 200_000, "1. " * 100_000, "&" * 400_000, "a" * 400_000):
        assert texts.unlisted(text, [], "") == set()


def test_every_shipped_system_lists_what_its_text_holds() -> None:
    """The check may be applied to systems of other packages because all of the lab pass it."""
    ((recording, golden),) = read(OPERATORS / "harbor-release.jsonl", "recorded")
    names = [name for name in BUILT_IN if name not in ("external", "plugin")]
    texts, injecting = Texts(), set()
    held = list(recording.memories)
    for answer in played(recording, arms_named(*names), golden.probes, recall_turns="user"):
        while held and held[0].visible_from <= answer.point.seq:
            texts.add(held[0].key, held[0].text, held[0].index_text)
            held.pop(0)
        recall = answer.recall
        listed = {*(item.id for item in recall.items[: recall.injected]), *recall.pinned}
        assert texts.unlisted(recall.context, listed, answer.point.text) == set(), answer.arm
        items = [(item.id, item.text) for item in recall.items[: recall.injected]]
        assert not texts.unwritten(items, recall.context), answer.arm
        injecting |= {answer.arm} if recall.context else set()
    assert {"engine", "pack", "observations", "rsclaw", "long_context", "memory_lancedb"} <= injecting
