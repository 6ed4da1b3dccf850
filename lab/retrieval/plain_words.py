"""The words by which facts, entities and packs compare texts: without function words; CJK text as pairs (TF-13, GR-5).

The searches have tokens of their own (:mod:`lab.retrieval.tokens`).
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

from lab.retrieval.stop_words import ENGLISH

# Characters of Chinese, Japanese and Korean, as a set in a pattern has them.
CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+")
_STOP = frozenset(ENGLISH)


def words(text: str) -> list[str]:
    """Return the words of a text in their order, in lower case."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word[0] >= "\u3040" and len(word) > 1:
            found.extend(map("".join, pairwise(word)))
        elif word not in _STOP:
            found.append(word)
    return found
