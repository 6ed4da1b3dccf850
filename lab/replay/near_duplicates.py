"""Find near-duplicates of many texts among many others: the rule of E-34 through an index instead of pair by pair."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from math import ceil

from lab.systems.openclaw.near_duplicate import CONTAINED, LIKENESS, Normal, alike, normal_text


class NearDuplicates:
    """Texts that others are compared with; :meth:`has` equals a loop over :func:`says_the_same`."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._known: dict[str, Normal] = {}
        self._joined: str | None = None
        self._contained: list[str] = []
        self._by_word: defaultdict[str, list[Normal]] = defaultdict(list)
        for text in texts:
            self.add(text)

    def add(self, text: str) -> None:
        """Add a text."""
        normal = normal_text(text)
        if not normal.text or normal.text in self._known:
            return
        self._known[normal.text], self._joined = normal, None
        if normal.length >= CONTAINED:
            self._contained.append(normal.text)
        for word in _prefix(normal):
            self._by_word[word].append(normal)

    def has(self, text: str) -> bool:
        """Return whether ``text`` is a near-duplicate of any of the texts."""
        normal = normal_text(text)
        if not normal.text:
            return False
        if normal.text in self._known:
            return True
        if self._joined is None:
            # No normalised text has a line break, so none is found across two texts.
            self._joined = "\n".join(self._known)
        if normal.length >= CONTAINED and normal.text in self._joined:
            return True
        if any(other in normal.text for other in self._contained):
            return True
        return any(alike(normal, other) for word in _prefix(normal) for other in self._by_word.get(word, ()))


def _prefix(normal: Normal) -> list[str]:
    """Return the words of which two texts that overlap enough share at least one.

    Of ``n`` words in a fixed order, the first ``n - ceil(LIKENESS * n) + 1`` suffice (prefix filtering: Chaudhuri,
    Ganti and Kaushik 2006). Long words come first, because they are rarer.
    """
    words = sorted(normal.words, key=lambda word: (-len(word), word))
    # The tolerance keeps one word more where the product is a whole number but for rounding.
    return words[: len(words) - ceil(LIKENESS * len(words) - 1e-9) + 1]
