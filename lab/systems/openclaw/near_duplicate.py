"""Detect near-duplicates: texts that say the same in nearly the same words (E-34, E-59).

Memories are compared with each other and with the Working Set under E-59, and with stored texts at capture under E-34.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.utf16 import js_length

CJK_RUN = regex("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af]+")
# Minimum word overlap of duplicates, and minimum length in UTF-16 units of a text contained in its duplicate (E-59).
LIKENESS, CONTAINED = 0.8, 12
_TAG = regex(r"<[^>]*>")
# Letters and digits of any script: word characters without the underscore.
_WORD = regex(r"[^\W_]+")


class Normal(NamedTuple):
    """A text reduced to letters and digits, its words, and its length in UTF-16 units."""

    text: str
    words: frozenset[str]
    length: int


@lru_cache(maxsize=65_536)
def normal_text(text: str) -> Normal:
    """Lower the case, remove markup and punctuation, collapse white space; words include pairs of CJK characters."""
    words = _WORD.findall(_without_tags(text))
    joined = " ".join(words)
    if joined.isascii():
        return Normal(joined, frozenset(words), len(joined))
    return Normal(joined, frozenset(part for word in words for part in _parts(word)), js_length(joined))


def words_of(text: str) -> frozenset[str]:
    """Return the distinct words of a text, lower-cased; a run of CJK characters gives its pairs."""
    return normal_text(text).words


def _without_tags(text: str) -> str:
    lowered = text.lower()
    if "<" not in lowered:
        return lowered
    # There is no tag after the last closing bracket, and searching there takes time quadratic in the open brackets.
    end = lowered.rfind(">") + 1
    return _TAG.sub(" ", lowered[:end]) + lowered[end:]


def _parts(word: str) -> list[str]:
    """Return an ASCII word itself, else the pairs of its CJK runs and the parts between them."""
    if word.isascii():
        return [word]
    runs = CJK_RUN.findall(word)
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return pairs + [part for part in CJK_RUN.split(word) if part]


def says_the_same(first: str, second: str, *, jaccard: float = LIKENESS, contained: int = CONTAINED) -> bool:
    """Whether texts are equal, one contains the other (of at least ``contained`` units), or words overlap enough.

    ``jaccard`` is the minimum overlap of their words.
    """
    return alike(normal_text(first), normal_text(second), jaccard=jaccard, contained=contained)


def alike(first: Normal, second: Normal, *, jaccard: float = LIKENESS, contained: int = CONTAINED) -> bool:
    """Apply :func:`says_the_same` to normalised texts."""
    shorter, longer = (first, second) if first.length <= second.length else (second, first)
    if not shorter.text:
        return False
    if first.text == second.text or (shorter.length >= contained and shorter.text in longer.text):
        return True
    few, many = len(first.words), len(second.words)
    if few > many:
        few, many = many, few
    # Sets of very different sizes cannot overlap enough; this check is cheaper than the intersection.
    if few < jaccard * many:
        return False
    shared = len(first.words & second.words)
    return shared >= jaccard * (few + many - shared)


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


# Minimum length in UTF-16 units of a text that is contained in its duplicate.
CAPTURE_CONTAINED = 30


def is_near_duplicate(first: str, second: str, threshold: float) -> bool:
    """Whether texts are equal after normalisation, one contains the other, or their words overlap enough."""
    return alike(_plain(first), _plain(second), jaccard=threshold, contained=CAPTURE_CONTAINED)


def is_near_duplicate_cjk(first: str, second: str, threshold: float) -> bool:
    """Apply :func:`is_near_duplicate` with pairs of CJK characters as words, so that Chinese texts can overlap."""
    return alike(normal_text(first), normal_text(second), jaccard=threshold, contained=CAPTURE_CONTAINED)


def _plain(text: str) -> Normal:
    normal = normal_text(text)
    return normal if normal.text.isascii() else normal._replace(words=frozenset(normal.text.split(" ")))
