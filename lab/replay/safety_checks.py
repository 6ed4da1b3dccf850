"""Safety checks of every recall, whatever system selects.

They use only the recording and the injected block, and nothing that the system reports, so that a faulty system cannot
hide its faults.
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
# Remainder of an entity that a budget cut.
_CUT = re.compile(r"&[a-z#0-9]{0,4}\Z")


class Checked(NamedTuple):
    """How many injected memories of one recall fail each check; see the columns of :mod:`lab.replay.receipts`.

    ``future`` counts memories that do not exist yet, or are forgotten. ``outdated`` is not a failure: it counts all
    memories superseded by then.
    """

    future: int
    duplicate_items: int
    unescaped: int
    superseded: int
    stale: int
    outdated: int


class SafetyChecks:
    """Checks recalls against the memories of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._known = {memory.key: memory for memory in recording.memories}
        texts: dict[str, str] = {}
        self._folded = {
            memory.key: texts.setdefault(folded := _folded(memory.text), folded) for memory in recording.memories
        }
        # Escaped texts of memories with markup; not escaped by the engine's code, which is what is checked.
        self._escaped = {
            memory.key: _escaped(memory.text) for memory in recording.memories if _MARKUP.search(memory.text)
        }
        # For each superseded memory: since when, and by which memories, transitively.
        self._until: dict[str, int] = {}
        self._newer: defaultdict[str, set[str]] = defaultdict(set)
        older: dict[str, set[str]] = {}
        for memory in recording.memories:
            older[memory.key] = {*memory.supersedes}.union(*(older.get(key, ()) for key in memory.supersedes))
            for key in older[memory.key]:
                self._newer[key].add(memory.key)
                self._until[key] = min(self._until.get(key, memory.visible_from), memory.visible_from)
        self._ends = sorted(self._until.values())

    def check(self, recall: Recall, seq: int, *, fed: bool = True) -> Checked:
        """Check what was recalled at the time ``seq``.

        If the system was not ``fed`` memories, all items are its own, even under keys of the recording, and
        :mod:`lab.replay.seat` has checked that it wrote them.
        """
        known = self._known if fed else {}
        injected = recall.items[: recall.injected]
        keys = [item.id for item in injected]
        texts = [self._folded[item.id] if item.id in known else _folded(item.text) for item in injected]
        superseded = [rank for rank, key in enumerate(keys) if self.superseded(key, seq)]
        return Checked(
            sum(key in known and not known[key].is_visible_at(seq) for key in (*keys, *recall.pinned)),
            len(texts) - len(set(texts)),
            _unescaped([text for item in injected if (text := self._escaped_text(item, known))], recall.context),
            len(superseded),
            sum(self.unreplaced(keys[rank], (*recall.pinned, *keys[:rank])) for rank in superseded),
            bisect_right(self._ends, seq),
        )

    def _escaped_text(self, item: Item, known: Container[str]) -> str | None:
        """Return the escaped text of an item; None if its text has no markup."""
        if item.id in known:
            return self._escaped.get(item.id)
        return _escaped(item.text) if _MARKUP.search(item.text) else None

    def superseded(self, key: str, seq: int) -> bool:
        """Return whether a memory that exists at ``seq`` supersedes this one."""
        return self._until.get(key, inf) <= seq

    def unreplaced(self, key: str, before: Iterable[str]) -> bool:
        """Return whether none of the memories ``before`` supersedes this one."""
        return self._newer[key].isdisjoint(before)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _escaped(text: str) -> str:
    return escape(text).replace("&#x27;", "&#39;")


def _unescaped(escaped: Sequence[str], context: str) -> int:
    # A text that is missing may have been cut by a budget, which is not a failure.
    missing = sum(text not in context for text in escaped)
    return missing if missing and _BARE.search(_CUT.sub("", _body(context))) else 0


def _body(context: str) -> str:
    """Return the lines of memories in the block; a budget may have cut its end, even within the closing tag."""
    body = context.partition(OPEN)[2]
    lines, tag, _ = body.rpartition("\n" + CLOSE)
    if tag:
        return lines
    cut = body.rpartition("\n")
    return cut[0] if CLOSE.startswith(cut[2]) else body
