"""Align the items that a system captured with the judged memories of a golden set.

A golden set names the recorded memories, but a system that captures memories from the turns creates its own. Each
captured item is judged as the recorded memory that it corresponds to: one of its source turn or, if that turn has
none, one with similar words. An item without such a memory is unjudged, and reports always show how many there are.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

Rule = Literal["source", "text"]
# Minimum F1 of the words of two texts that count as the same memory.
LEAST = 0.6
_WORDS = re.compile(r"[^\W_]+", re.UNICODE)


class Alignment(NamedTuple):
    """The memory that a captured item corresponds to, the rule that matched, and the F1 of their words (0 to 1)."""

    memory: str
    rule: Rule
    score: float


class Aligner:
    """Alignment of the captured items of one conversation with its judged memories.

    ``texts`` maps the keys of the judged memories to their texts. A key names the source of its memory
    (``<conversation>/<session>[/<turn>]#<ordinal>``). ``turns`` holds the keys of all turns.
    """

    def __init__(self, texts: Mapping[str, str], turns: Iterable[str]) -> None:
        known = set(turns)
        self._words = {key: words(text) for key, text in texts.items()}
        self._of_turn: dict[str, list[str]] = {}
        self._loose: list[str] = []
        for key in texts:
            turn = key.rpartition("#")[0]
            if turn in known:
                self._of_turn.setdefault(turn, []).append(key)
            else:
                self._loose.append(key)

    def align(self, text: str, sources: Sequence[str]) -> Alignment | None:
        """Return the memory that an item corresponds to, or None; ``sources`` are the keys of the item's source turns.

        Among the judged memories of the item's source turns, the memory with the highest F1 wins. If there are none,
        the memories without a known turn are compared, and the F1 must reach :data:`LEAST`. Ties are broken by key.
        """
        item_words = words(text)
        near = [key for turn in sources for key in self._of_turn.get(turn, ())]
        if near:
            best = min(near, key=lambda key: (-f1(item_words, self._words[key]), key))
            return Alignment(best, "source", f1(item_words, self._words[best]))
        score, best = min(((-f1(item_words, self._words[key]), key) for key in self._loose), default=(0.0, ""))
        return Alignment(best, "text", -score) if -score >= LEAST else None


def words(text: str) -> Counter[str]:
    """Return the case-folded words of a text with their counts. A word with CJK characters counts by character."""
    return Counter(
        part
        for word in _WORDS.findall(text.casefold())
        for part in (
            list(word)
            if any("\u3040" <= character <= "\u9fff" or character >= "\uac00" for character in word)
            else [word]
        )
    )


def f1(left: Counter[str], right: Counter[str]) -> float:
    """Return the F1 of two word counts: twice the common words over all words, or 0 if both are empty."""
    total = left.total() + right.total()
    return 2 * (left & right).total() / total if total else 0.0
