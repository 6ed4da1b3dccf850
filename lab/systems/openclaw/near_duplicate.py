"""When two texts say the same in nearly the same words (E-34, E-59)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lab.utf16 import js_length

CJK_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af]+")
# Overlap of words from which two texts say the same, and units from which one inside the other does (E-59).
LIKENESS, CONTAINED = 0.8, 12
_TAG = re.compile(r"<[^>]*>")
# Letters and digits of any script: what a word is made of, less the underscore.
_WORD = re.compile(r"[^\W_]+")


class Normal(NamedTuple):
    """A text reduced to letters and digits, its words, and its length in UTF-16 units."""

    text: str
    words: frozenset[str]
    length: int


@lru_cache(maxsize=65_536)
def normal_text(text: str) -> Normal:
    """Lower case, markup and punctuation gone, white space collapsed; words include pairs of CJK characters."""
    found = _WORD.findall(_bare(text))
    joined = " ".join(found)
    if joined.isascii():
        return Normal(joined, frozenset(found), len(joined))
    return Normal(joined, frozenset(one for word in found for one in _parts(word)), js_length(joined))


def words_of(text: str) -> frozenset[str]:
    """The distinct words of a text, lower-cased; a run of CJK characters gives its pairs."""
    return normal_text(text).words


def _bare(text: str) -> str:
    lowered = text.lower()
    if "<" not in lowered:
        return lowered
    # Behind the last closing bracket there is no tag, and looking for one takes time by the square of the brackets.
    end = lowered.rfind(">") + 1
    return _TAG.sub(" ", lowered[:end]) + lowered[end:]


def _parts(word: str) -> list[str]:
    """A word itself, or the pairs of its CJK runs and what stands between them."""
    if word.isascii():
        return [word]
    runs = CJK_RUN.findall(word)
    pairs = [run[at : at + 2] for run in runs for at in range(max(1, len(run) - 1))]
    return pairs + [part for part in CJK_RUN.split(word) if part]


def says_the_same(one: str, other: str, *, jaccard: float = LIKENESS, contained: int = CONTAINED) -> bool:
    """Equal, or one holds the other (of at least ``contained`` units), or their words overlap by ``jaccard``."""
    return alike(normal_text(one), normal_text(other), jaccard=jaccard, contained=contained)


def alike(first: Normal, second: Normal, *, jaccard: float = LIKENESS, contained: int = CONTAINED) -> bool:
    """:func:`says_the_same` for texts that are normal already."""
    shorter, longer = (first, second) if first.length <= second.length else (second, first)
    if not shorter.text:
        return False
    if first.text == second.text or (shorter.length >= contained and shorter.text in longer.text):
        return True
    few, many = len(first.words), len(second.words)
    if few > many:
        few, many = many, few
    # Two sets of very different sizes cannot overlap enough, which is quicker to see than to count.
    if few < jaccard * many:
        return False
    shared = len(first.words & second.words)
    return shared >= jaccard * (few + many - shared)
