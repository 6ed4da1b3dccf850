"""Which judged memory a captured item stands for: by the turn that both came from, else by their words.

A golden set names memories that were given. A system that captures makes its own, so what it returns is judged as the
memory that it stands for; what stands for none is unjudged, and never counted as wrong without saying so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

Rule = Literal["source", "text"]
# Share of words in common (F1 over words, counted) from which on two texts say the same.
LEAST = 0.6
_WORDS = re.compile(r"[^\W_]+", re.UNICODE)


class Alignment(NamedTuple):
    """A captured item stands for a memory, by a rule, with a score: the F1 of their words (0 to 1)."""

    memory: str
    rule: Rule
    score: float


class Aligner:
    """Aligns captured items of one conversation with its judged memories.

    ``texts`` are the judged memories by key. A key names where its memory came from
    (``<conversation>/<session>[/<turn>]#<ordinal>``); ``turns`` are the keys of the turns there are.
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
        """The memory that an item stands for; None: none.

        A memory of one of the item's source turns, the one with most words in common; where none of the turns has a
        judged memory, one whose turn nobody knows with at least :data:`LEAST` of its words. Equal ones go by key.
        """
        own = words(text)
        near = [key for turn in sources for key in self._of_turn.get(turn, ())]
        if near:
            best = min(near, key=lambda key: (-f1(own, self._words[key]), key))
            return Alignment(best, "source", f1(own, self._words[best]))
        score, best = min(((-f1(own, self._words[key]), key) for key in self._loose), default=(0.0, ""))
        return Alignment(best, "text", -score) if -score >= LEAST else None


def words(text: str) -> Counter[str]:
    """The words of a text, counted, case folded. A character that is written without spaces is a word."""
    return Counter(
        part
        for word in _WORDS.findall(text.casefold())
        for part in (list(word) if any("\u3040" <= one <= "\u9fff" or one >= "\uac00" for one in word) else [word])
    )


def f1(one: Counter[str], other: Counter[str]) -> float:
    """Twice the words in common over all words of both; 0 where there are none."""
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0
