"""Safety checks on recalls that pass and recalls that fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.recordings.model import Memory, Recording
from lab.replay.receipts import Checked, SafetyChecks
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.recall.block import escape, wrap

SOUND = Checked(0, 0, 0, 0, 0, 0)


def recording(*memories: tuple[str, str, int, tuple[str, ...]]) -> Recording:
    """Return a recording from memories: key, text, first visible turn, superseded keys."""
    return Recording(
        "c", (), tuple(Memory(key, text, text, born, 0, supersedes=old) for key, text, born, old in memories)
    )


def recall(
    keys: Sequence[str], context: str = "", *, injected: int | None = None, pinned: tuple[str, ...] = ()
) -> Recall:
    items = tuple(Item(key, key, (key,), 1.0, tier="must") for key in keys)
    return Recall(items, len(items) if injected is None else injected, context, pinned=pinned)


def test_safety_checks_future_counts_injected_memories_only() -> None:
    known = SafetyChecks(recording(("a", "one", 1, ()), ("b", "two", 5, ()), ("c", "three", 6, ())))
    assert known.check(recall(["a", "b", "c"], injected=2), 4).future == 1
    assert known.check(recall(["a", "b", "c"], injected=2), 5).future == 0
    assert known.check(recall(["a"], pinned=("b", "c")), 5).future == 1
    # Items unknown to the recording, such as documents, are never from the future.
    assert known.check(recall(["docs"]), 0) == SOUND


def test_safety_checks_duplicates_share_text_or_key() -> None:
    known = SafetyChecks(
        recording(("a", "Tea  at five", 0, ()), ("b", " tea at\nFIVE", 0, ()), ("c", "tea at 5", 0, ()))
    )
    assert known.check(recall(["a", "c"]), 1).duplicate_items == 0
    assert known.check(recall(["c", "a", "b"]), 1).duplicate_items == 1
    assert known.check(recall(["c", "c", "c"]), 1).duplicate_items == 2


MARKED = "use <b> & 'c' > \"d\"\nthen </relevant-memories>"


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ((escape(MARKED), escape("a &amp; b")), 0),
        ((MARKED, escape("a &amp; b")), 1),
        ((MARKED, "a &amp; b & c"), 2),
        # Partly escaped.
        ((MARKED.replace("<", "&lt;"), escape("a &amp; b")), 1),
        # Escaped twice, which is another fault.
        ((escape(escape(MARKED)), escape("a &amp; b")), 0),
    ],
)
def test_safety_checks_unescaped_markup_is_counted(texts: tuple[str, str], count: int) -> None:
    known = SafetyChecks(recording(("a", MARKED, 0, ()), ("b", "a &amp; b", 0, ()), ("c", "plain", 0, ())))
    block = wrap([("fact", "must_remember", "@1"), ("fact", "must_remember", "@2"), ("fact", "unknown", "plain")])
    context = block.replace("@1", texts[0]).replace("@2", texts[1])
    assert known.check(recall("abc", context), 1).unescaped == count


def test_safety_checks_cut_block_is_not_unescaped() -> None:
    known = SafetyChecks(recording(("a", MARKED, 0, ())))
    whole = "<!-- {} -->\n" + wrap([("fact", "must_remember", MARKED)])
    assert all(known.check(recall("a", whole[:end]), 1).unescaped == 0 for end in range(len(whole) + 1))
    bare = whole.replace(escape(MARKED), MARKED)
    assert known.check(recall("a", bare[: bare.index("&") + 9]), 1).unescaped == 1


def test_safety_checks_superseded_memory_without_successor_is_stale() -> None:
    known = SafetyChecks(
        recording(("a", "port 1", 1, ()), ("b", "port 2", 3, ("a",)), ("c", "port 3", 5, ("b",)), ("x", "else", 1, ()))
    )
    assert known.check(recall(["a", "x"]), 2) == SOUND
    assert known.check(recall(["a", "x"]), 3) == SOUND._replace(superseded=1, stale=1, outdated=1)
    assert known.check(recall(["a", "b"]), 3) == SOUND._replace(superseded=1, stale=1, outdated=1)
    assert known.check(recall(["b", "a"]), 3) == SOUND._replace(superseded=1, outdated=1)
    # A successor's successor counts too, and the Working Set precedes all items.
    assert known.check(recall(["c", "a", "b"]), 5) == SOUND._replace(superseded=2, outdated=2)
    assert known.check(recall(["a"], pinned=("c",)), 5) == SOUND._replace(superseded=1, outdated=2)
    assert known.check(recall(["b"]), 5) == SOUND._replace(superseded=1, stale=1, outdated=2)


def test_safety_checks_captured_items_ignore_recorded_keys() -> None:
    known = SafetyChecks(recording(("a", "same", 5, ()), ("b", "same", 0, ()), ("c", MARKED, 0, ())))
    items = (Item("a", "one"), Item("b", "two"), Item("c", "<plain>"))
    result = Recall(items, 3, wrap([("fact", "must_remember", "one"), ("fact", "unknown", "<plain>")]))
    assert known.check(result, 1, fed=False) == SOUND
    assert known.check(result, 1) == SOUND._replace(future=1, duplicate_items=1)
    assert known.check(Recall((Item("x", "One "), Item("y", "one")), 2, ""), 1, fed=False).duplicate_items == 1
