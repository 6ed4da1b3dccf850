"""The words of queries and snippets, as the host's search splits them (HB-5)."""

from __future__ import annotations

import re
from itertools import pairwise

from lab.retrieval.tokens import ENGLISH
from lab.systems.openclaw.near_duplicate import CJK_RUN

# A prompt is searched by this many single words if its words are not all in enough chunks.
MOST_KEYWORDS = 6
_WORD = re.compile(r"\w+")
_ASCII_WORD = re.compile(r"[a-z0-9_]+")
_IDEOGRAPHS = re.compile("[\u4e00-\u9fff]")
_STOP = frozenset(ENGLISH)


def query_words(text: str) -> list[str]:
    """Return the runs of letters, digits and underscores of a text in lower case; a Chinese phrase is one."""
    return _WORD.findall(text.lower())


def match_of(words: list[str]) -> str:
    """Return the FTS5 query that wants every word; blank without words."""
    return " AND ".join(f'"{word}"' for word in words)


def keywords(text: str, tokenizer: str) -> list[str]:
    """Return at most :data:`MOST_KEYWORDS` words worth a search of their own, in order, without repetition.

    Stop words, short words of Latin letters and numbers are none. Of Chinese phrases, the host takes the characters
    and their pairs, or with ``trigram`` the whole phrase. The stop words are the lab's English ones.
    """
    found: dict[str, None] = {}
    for word in re.split(r"[\W]+", text.lower()):
        characters = _IDEOGRAPHS.findall(word)
        if not characters:
            found[word] = None
        elif tokenizer == "trigram":
            found["".join(characters)] = None
        else:
            found |= dict.fromkeys([*characters, *map("".join, pairwise(characters))])
    whole = text.strip().lower()
    return [word for word in found if _is_keyword(word) and word != whole][:MOST_KEYWORDS]


def _is_keyword(word: str) -> bool:
    if not word or word in _STOP or word.isdecimal():
        return False
    return len(word) > 2 or not (word.isascii() and word.isalpha())


def jaccard_words(text: str) -> frozenset[str]:
    """Return the words by which two snippets are compared: ASCII words, CJK characters, and their pairs."""
    lowered = text.lower()
    words = set(_ASCII_WORD.findall(lowered))
    for run in CJK_RUN.findall(lowered):
        words.update(run)
        words.update(run[at : at + 2] for at in range(len(run) - 1))
    return frozenset(words)
