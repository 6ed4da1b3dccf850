"""What every injection has to keep, whatever selects: told from the recording and the block that came back, alone.

Nothing here is asked of the engine, so a fault of it cannot hide itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Sequence
from html import escape
from math import inf
from typing import NamedTuple

from lab.recordings.model import Recording
from lab.systems.contract import Item, Recall
from lab.systems.openclaw.recall.wrap import CLOSE, OPEN

_MARKUP = re.compile("[<>&]")
_BARE = re.compile(r"[<>]|&(?!(?:amp|lt|gt|quot|#39);)")
# What is left of an entity where a budget cut the block.
_CUT = re.compile(r"&[a-z#0-9]{0,4}\Z")
# Where characters of CJK begin and end, by turns: kana, extension A, ideographs, hangul, compatibility.
_CJK = (0x3040, 0x3100, 0x3400, 0x4DC0, 0x4E00, 0xA000, 0xAC00, 0xD7B0, 0xF900, 0xFB00)


class Checked(NamedTuple):
    """How many of the injected memories of one recall break a promise; see the columns of :mod:`lab.replay.receipts`.

    ``future`` counts memories that were not born yet, or forgotten by then. ``outdated`` is no breach: so many memories
    were superseded by then.
    """

    future: int
    twins: int
    raw: int
    superseded: int
    stale: int
    outdated: int


class SafetyChecks:
    """What a recording says of its memories, ready to hold recalls against."""

    def __init__(self, recording: Recording) -> None:
        self._known = {memory.key: memory for memory in recording.memories}
        texts: dict[str, str] = {}
        self._said = {
            memory.key: texts.setdefault(folded := _folded(memory.text), folded) for memory in recording.memories
        }
        # Texts with markup, as they should stand in a block; the engine's own escaping is what is being checked.
        self._escaped = {
            memory.key: _escaped(memory.text) for memory in recording.memories if _MARKUP.search(memory.text)
        }
        # By superseded memory: from when on it is, and by which, those that supersede its successors included.
        self._until: dict[str, int] = {}
        self._newer: defaultdict[str, set[str]] = defaultdict(set)
        older: dict[str, set[str]] = {}
        for memory in recording.memories:
            older[memory.key] = {*memory.supersedes}.union(*(older.get(one, ()) for one in memory.supersedes))
            for one in older[memory.key]:
                self._newer[one].add(memory.key)
                self._until[one] = min(self._until.get(one, memory.visible_from), memory.visible_from)
        self._ends = sorted(self._until.values())

    def check(self, recall: Recall, seq: int, *, fed: bool = True) -> Checked:
        """Hold what was recalled at a moment against it.

        Where the system was not ``fed`` from outside, items are its own, even under keys that the recording knows, and
        whether they were there has been held against its writes (:mod:`lab.replay.seat`).
        """
        known = self._known if fed else {}
        injected = recall.items[: recall.injected]
        keys = [one.id for one in injected]
        said = [self._said[one.id] if one.id in known else _folded(one.text) for one in injected]
        superseded = [place for place, key in enumerate(keys) if self.superseded(key, seq)]
        return Checked(
            sum(key in known and not known[key].is_visible_at(seq) for key in (*keys, *recall.pinned)),
            len(said) - len(set(said)),
            _raw([text for one in injected if (text := self._escaped_text(one, known))], recall.context),
            len(superseded),
            sum(self.unreplaced(keys[place], (*recall.pinned, *keys[:place])) for place in superseded),
            bisect_right(self._ends, seq),
        )

    def _escaped_text(self, item: Item, known: Container[str]) -> str | None:
        """A text with markup as it should stand in the block; None where there is none in it."""
        if item.id in known:
            return self._escaped.get(item.id)
        return _escaped(item.text) if _MARKUP.search(item.text) else None

    def superseded(self, key: str, seq: int) -> bool:
        """Whether a memory that is born by then supersedes this one."""
        return self._until.get(key, inf) <= seq

    def unreplaced(self, key: str, before: Iterable[str]) -> bool:
        """Whether none of these supersedes a memory."""
        return self._newer[key].isdisjoint(before)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _escaped(text: str) -> str:
    return escape(text).replace("&#x27;", "&#39;")


def _raw(escaped: Sequence[str], context: str) -> int:
    # A text that stands as it should is the usual case; one that does not may have been cut, which is no breach.
    amiss = sum(text not in context for text in escaped)
    return amiss if amiss and _BARE.search(_CUT.sub("", _body(context))) else 0


def tokens(text: str) -> int:
    """About how many tokens a model counts: a quarter of ASCII, two thirds of CJK, half of the rest (E-62)."""
    if not text:
        return 0
    if text.isascii():
        return len(text) // 4 + 1
    import numpy as np

    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    others = codes[codes > 127]
    cjk = int(np.count_nonzero(np.searchsorted(_CJK, others, "right") % 2))
    return (len(codes) - len(others)) // 4 + (2 * cjk + 1) // 3 + (len(others) - cjk) // 2 + 1


def _body(context: str) -> str:
    """The lines of memories in the block; a budget may have cut its end off, and even a part of its last tag."""
    body = context.partition(OPEN)[2]
    whole, tag, _ = body.rpartition("\n" + CLOSE)
    if tag:
        return whole
    cut = body.rpartition("\n")
    return cut[0] if CLOSE.startswith(cut[2]) else body
