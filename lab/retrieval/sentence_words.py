"""The words by which facts, entities and packs compare texts (TF-13, GR-5, PK-4, PK-7).

They leave out function words, and CJK text counts as pairs of characters. The searches have tokens of their own
(:mod:`lab.retrieval.tokens`).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from lab.base.regex import regex
from lab.retrieval.tokens import ENGLISH

# Characters of Chinese, Japanese and Korean, as a set in a pattern has them.
CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
_WORD = regex(rf"[{CJK}]+|[^\W_{CJK}]+")
_FUNCTION_WORDS = frozenset(ENGLISH)


def words(text: str) -> list[str]:
    """Return the words of a text in their order, in lower case."""
    found: list[str] = []
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if word[0] >= "\u3040" and len(word) > 1:
            found.extend(map("".join, pairwise(word)))
        elif word not in _FUNCTION_WORDS:
            found.append(word)
    return found


# The end of a sentence, or of a line.
_END = regex("(?<=[.!?])\\s+|(?<=[.!?][\"'”’)])\\s+|\n+|(?<=[。！？])")
# Where a clause ends within a sentence.
_CLAUSE = regex(r"[,;:()—，；：（）]\s*(?!\d)|\s(?:and|but|so|because|which|while|although|though|if|whether)\s")
# Exact names and numbers: whatever has a digit, or a sign that joins the parts of a path, an address or a name in code.
# Each is looked for in each record, so a prompt full of them must not take minutes.
MOST_NAMES = 32
_IDENTIFIER = regex(r"[A-Za-z0-9][\w./:@#-]*[A-Za-z0-9]|\d")
_JOINED = regex(r"\d|[_/@#]|\w\.\w|\w:\w")
_VALUE = regex(r"\d+(?:[.,:/-]\d+)*")
_HEDGE = regex(
    r"\b(?:not (?:sure|certain|only|just|yet sure)|no (?:problem|worries|doubt))\b|n['’]t (?:sure|certain|just)\b"
    "|不(?:過|过|錯|错|只|僅|仅|確定|确定|知道|但)"
)
_NEGATION = regex(
    r"\b(?:never|not|no longer|cannot|without|none|neither|stop(?:ped)|cancel(?:l?ed)|revoked)\b"
    "|n['’]t\\b|[不沒没未無无別别]"
)
# Where one of the stems of a text may stand: a word, or a pair of CJK characters in group 1.
PIECE = regex(rf"(?=([{CJK}]{{2}}))|[^\W_{CJK}]+")
# Negations do not tell what a text is about.
_SPLIT_NEGATIONS = frozenset(("ever", "never", "not", "no", "won", "don", "didn", "haven", "isn", "doesn"))
_SUFFIXES = ("ings", "ing", "ed", "es", "s", "e")
_SHORTEST_STEM = 3


class Sentence(NamedTuple):
    """A sentence: its text on one line, its stems, its numbers, and whether it is negated."""

    text: str
    stems: frozenset[str]
    values: frozenset[str]
    is_negated: bool


def one_line(text: str) -> str:
    """Return a text on one line, each run of white space as one blank."""
    return " ".join(text.split())


def stems(text: str) -> frozenset[str]:
    """Return the terms of a text: the stems of its words without function words, and its pairs of CJK characters."""
    return frozenset(_stem(word) if word.isascii() else word for word in words(text) if word not in _SPLIT_NEGATIONS)


@lru_cache(maxsize=1 << 15)
def _stem(word: str) -> str:
    """Return a word without its ending, so that "integrated" and "integrating" are one."""
    if word.isdigit():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= _SHORTEST_STEM:
            word = word.removesuffix(suffix)
            break
    return word.removesuffix("e") if len(word) > _SHORTEST_STEM else word


# A memory is a candidate at many turns.
@lru_cache(maxsize=1 << 13)
def sentences(text: str) -> tuple[Sentence, ...]:
    """Return the sentences of a text; a line is at least one."""
    parts = (one_line(part) for part in _END.split(text))
    return tuple(_sentence(part) for part in parts if part)


@lru_cache(maxsize=1 << 13)
def clauses(text: str) -> tuple[Sentence, ...]:
    """Return the clauses of a text, so that a negation in one does not count for the next."""
    parts = (part.strip() for sentence in sentences(text) for part in _CLAUSE.split(sentence.text))
    return tuple(_sentence(part) for part in parts if part)


def _sentence(text: str) -> Sentence:
    plain = _HEDGE.sub(" ", text.lower())
    return Sentence(text, stems(text), frozenset(_VALUE.findall(text)), _NEGATION.search(plain) is not None)


def identifiers(query: str) -> tuple[str, ...]:
    """Return the first exact names and numbers of a query: words with a digit, paths, addresses, names in code."""
    names = dict.fromkeys(word for word in _IDENTIFIER.findall(query) if _JOINED.search(word))
    return tuple(names)[:MOST_NAMES]
