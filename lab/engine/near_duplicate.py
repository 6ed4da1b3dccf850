"""When two texts say the same in nearly the same words (spec 10.1, 16.6)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lab.engine.js import js_length

CJK_RUN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u3040-\u30ff\uac00-\ud7af]+")
_TAG = re.compile(r"<[^>]*>")


class Normal(NamedTuple):
    """A text reduced to letters and digits, its words, and its length in UTF-16 units."""

    text: str
    words: frozenset[str]
    length: int


@lru_cache(maxsize=65_536)
def normal_text(text: str) -> Normal:
    """Lower case, markup and punctuation gone, white space collapsed; words include pairs of CJK characters."""
    bare = _TAG.sub(" ", text.lower())
    joined = " ".join("".join(one if one.isalnum() else " " for one in bare).split())
    return Normal(joined, words_of(text), js_length(joined))


@lru_cache(maxsize=65_536)
def words_of(text: str) -> frozenset[str]:
    """The distinct words of a text, lower-cased; a run of CJK characters gives its pairs."""
    lowered = _TAG.sub(" ", text.lower())
    pairs = {run[at : at + 2] for run in CJK_RUN.findall(lowered) for at in range(max(1, len(run) - 1))}
    rest = CJK_RUN.sub(" ", lowered)
    return frozenset(pairs | set("".join(one if one.isalnum() else " " for one in rest).split()))


def says_the_same(one: str, other: str, *, jaccard: float = 0.8, contained: int = 12) -> bool:
    """Equal, or one holds the other (of at least ``contained`` units), or their words overlap by ``jaccard``."""
    return alike(normal_text(one), normal_text(other), jaccard=jaccard, contained=contained)


def alike(first: Normal, second: Normal, *, jaccard: float = 0.8, contained: int = 12) -> bool:
    """:func:`says_the_same` for texts that are normal already."""
    shorter, longer = (first, second) if first.length <= second.length else (second, first)
    if not shorter.text:
        return False
    if first.text == second.text or (shorter.length >= contained and shorter.text in longer.text):
        return True
    few, many = sorted((len(first.words), len(second.words)))
    # Two sets of very different sizes cannot overlap enough, which is quicker to see than to count.
    if few < jaccard * many:
        return False
    shared = len(first.words & second.words)
    return shared >= jaccard * (few + many - shared)
