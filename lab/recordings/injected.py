"""Read the memories in a block that the engine injected before a user's message (E-25, E-42)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from lab.recordings.cleaning import injected_texts
from lab.recordings.events import InjectedBlock, RecordedMemory

_OPEN, _CLOSE = "<relevant-memories>", "</relevant-memories>"
_COMMENT = re.compile(r"<!--\s*openclaw-mem-engine:autoRecall (\{.*?\}) -->", re.DOTALL)
# In the order in which to replace them: the ampersand last, because the other escapes begin with it.
_ESCAPES = (("&#39;", "'"), ("&quot;", '"'), ("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&"))
# Lines that begin a Working Set (E-26, E-69), which is an item of the block but no memory.
_WORKING_SET = re.compile(
    r"\[working_set v1\]|goal: |(?:constraints|preferences|decisions|next_actions|open_questions):(?:\n- |\Z)"
)
_DOCUMENT = re.compile(r"\[docs\|operator\|")


class _Item(NamedTuple):
    """An item of a block: its category, label and unescaped text."""

    category: str
    label: str
    text: str


def read_blocks(message: str) -> tuple[InjectedBlock, ...]:
    """Return the blocks in a user's message as the host recorded it, in order.

    The receipt comment before a block names the ids of its first memories if the engine's receipts are verbose. They
    are used only if the budget dropped no memory, because the comment lists those that it dropped too.
    """
    return tuple(_read(text) for text in injected_texts(message))


def _read(text: str) -> InjectedBlock:
    start = text.lower().find(_OPEN)
    if start < 0:
        return InjectedBlock(cut=True)
    comment, body = text[:start], text[start + len(_OPEN) :]
    end = body.lower().rfind(_CLOSE)
    cut = end < 0
    items = list(_items(body if cut else body[:end]))
    if cut and items:
        # The budget may have cut the last one anywhere.
        items.pop()
    memories = [item for item in items if not _is_other(item)]
    ids = _ids(comment, len(memories))
    return InjectedBlock(
        tuple(
            RecordedMemory(item.text, ids[at] if at < len(ids) else "", item.category, item.label)
            for at, item in enumerate(memories)
        ),
        len(items) - len(memories),
        cut,
    )


def _items(body: str) -> Iterator[_Item]:
    """Yield the items, which are numbered from 1; a text may span several lines."""
    head = re.compile(r"^(\d+)\. \[([^\]|\n]*)(?:\|([^\]\n]*))?\] ?", re.MULTILINE)
    found: list[re.Match[str]] = []
    for match in head.finditer(body):
        if int(match[1]) == len(found) + 1:
            found.append(match)
    for at, match in enumerate(found):
        end = found[at + 1].start() if at + 1 < len(found) else len(body)
        yield _Item(match[2], match[3] or "", _unescaped(body[match.end() : end].removesuffix("\n")))


def _is_other(item: _Item) -> bool:
    """Return whether an item is a Working Set or a document, not a memory."""
    pinned = item.category == "other" and item.label == "must_remember" and _WORKING_SET.match(item.text) is not None
    return pinned or (item.category == "fact" and _DOCUMENT.match(item.text) is not None)


def _unescaped(text: str) -> str:
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    return text


def _ids(comment: str, count: int) -> tuple[str, ...]:
    """Return the ids that a receipt comment lists in order, if it reports ``count`` memories and is readable."""
    match = _COMMENT.search(comment)
    try:
        value: Any = json.loads(match[1]) if match else None
    except (ValueError, RecursionError):
        return ()
    listed, summary = (value.get(name) if isinstance(value, dict) else None for name in ("fusedTop", "whySummary"))
    tiers = summary.get("byTier") if isinstance(summary, dict) else None
    numbers = [number for number in tiers.values() if isinstance(number, int)] if isinstance(tiers, dict) else []
    if not isinstance(listed, list) or sum(numbers) != count:
        return ()
    return tuple(each if isinstance(each, str) else "" for each in listed)
