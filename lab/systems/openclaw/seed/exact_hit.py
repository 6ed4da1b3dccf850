"""Detect exact or very strong lexical hits (seed 000; E-57), which are exempt from repeat suppression.

Seed 001 names what exact matches are for: paths, error codes, commit hashes, short identifiers, partial quotes. Each
names one thing. A number of four digits does not: it is most often a year, and a year occurs in memories that have
nothing else in common.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lab.base.regex import regex
from lab.recordings.model import SEARCHED
from lab.retrieval.tokens import ENGLISH
from lab.systems.openclaw.near_duplicate import CJK_RUN, words_of

MIN_PHRASE, MIN_CJK_RUN, MIN_TERMS, TERM_SHARE = 2, 4, 2, 0.8
# A number with at least this many digits is an identifier by itself.
MIN_DIGITS = 5
_FUNCTION_WORDS = frozenset(ENGLISH)
# Each alternative is anchored at the start of a word, a run of letters or a path, because trying it at every character
# takes time quadratic in the length of a word.
_IDENTIFIER = regex(
    r"(?<!\w)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # UUID
    r"|(?<![\w.-])(?:[\w.-]+)?(?:/[\w.-]+)+"  # path
    r"|(?<!\w)(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w)"  # commit
    r"|(?<!\w)\w+(?:[._:-]\w+)+"  # dotted, dashed or underscored name, version, error code
    r"|(?<![a-z])[a-z]+[0-9]{2,}\w*"  # error code
    r"|[0-9]{4,}",
    re.ASCII,
)
# A word with a digit, or with a mark that joins the parts of an identifier: every identifier has one of them.
_ODD = regex(r"(?<!\S)[^\s0-9/_.:-]*+(?:[0-9/_]|[.:-]+(?=\S))\S*")
_QUOTED = regex('"([^"]*)"|“([^“”]*)”|「([^「」]*)」|『([^『』]*)』|`([^`]*)`')
# Prose that looks like a name: "follow-up", "10-minute", "e.g".
_PROSE = regex(r"[a-z]+(?:[-'][a-z]+)*|[0-9]+(?:-[a-z]+)+|[a-z](?:\.[a-z])+")
_NUMERIC = regex(r"[0-9]+(?:[._:/-][0-9]+)*")
# A date by year, month and day in either order and any separator; a month or a span of years; a time of day.
_WHEN = regex(
    r"(?:19|20)[0-9]{2}([-/._]?)(?:0?[1-9]|1[0-2])\1(?:0?[1-9]|[12][0-9]|3[01])"
    r"|[0-9]{1,2}([-/.])[0-9]{1,2}\2(?:[0-9]{2}){1,2}"
    r"|(?:19|20)[0-9]{2}[-/.][0-9]{1,4}|[0-9]{1,2}[-/.](?:19|20)[0-9]{2}"
    r"|[0-9]{1,2}(?::[0-9]{2}){1,2}"
)
_YEAR = regex("(?:19|20)[0-9]{2}")
# A number together with the word before it: port 8443, ticket #4711, 連接埠 8443.
_LABELLED = regex(r"((?<![a-z])[a-z]+(?=[ :=#])|[\u3400-\u9fff]{2})[ :=#]{0,2}([0-9]{4})(?![0-9.:/_-]?[0-9a-z])")


class Evidence(NamedTuple):
    """The parts of a query that count as evidence, in lower case.

    ``labelled`` are numbers that are not identifiers by themselves, with the word before them; ``numbers`` are all
    numbers of four digits and dates, which count only on request.
    """

    identifiers: frozenset[str]
    phrases: frozenset[str]
    terms: frozenset[str]
    labelled: frozenset[tuple[str, str]] = frozenset()
    numbers: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def evidence_of(query: str) -> Evidence:
    """Return the identifiers, phrases and content words of a query."""
    lowered = query.lower()
    # An identifier has no white space, and a word of letters is none: most of a prompt need not be searched.
    odd = " ".join(_ODD.findall(lowered))
    names = {name for name in _IDENTIFIER.findall(odd) if not _PROSE.fullmatch(name)}
    identifiers = frozenset(name for name in names if _is_identifier(name))
    quoted = {part for groups in _QUOTED.findall(lowered) for part in groups if len(part.strip()) >= MIN_PHRASE}
    runs = set() if lowered.isascii() else {run for run in CJK_RUN.findall(lowered) if len(run) >= MIN_CJK_RUN}
    labelled = {
        (word, number)
        for word, number in (_LABELLED.findall(lowered) if odd else ())
        if word not in _FUNCTION_WORDS and not _YEAR.fullmatch(number)
    }
    return Evidence(
        identifiers,
        frozenset(quoted | runs),
        words_of(query) - _FUNCTION_WORDS,
        frozenset(labelled),
        frozenset(names - identifiers),
    )


def _is_identifier(name: str) -> bool:
    """Whether a name is one by itself: it has a letter, or is a long number, an address or a version, and no date."""
    if not _NUMERIC.fullmatch(name):
        return True
    if _WHEN.fullmatch(name):
        return False
    return sum(map(str.isdigit, name)) >= MIN_DIGITS or name.count(".") >= 2


def exact_hit(query: str, text: str, fts_rank: int | None, *, numbers: bool = False) -> str | None:
    """Return the rule that makes ``text`` an exact hit for ``query``: identifier, phrase or terms; None if none does.

    ``identifier``: the text contains a path, name, code or long number of the query, or a number of four digits after
    the same word, unless it may be a year; with ``numbers``, any number of four digits or date. ``phrase``: it contains
    a quoted phrase or a run of at least four CJK characters. ``terms``: it ranks first of its tier in the text lane and
    contains at least two and four fifths of the query's content words.
    """
    # Text search, too, reads only this much of a long query.
    evidence = evidence_of(query[:SEARCHED])
    lowered = text.lower()
    identifiers = evidence.identifiers | evidence.numbers if numbers else evidence.identifiers
    if any(_contains(identifier, lowered) for identifier in identifiers):
        return "identifier"
    if evidence.labelled and not evidence.labelled.isdisjoint(_LABELLED.findall(lowered)):
        return "identifier"
    if any(_has_phrase(phrase, lowered) for phrase in evidence.phrases):
        return "phrase"
    if fts_rank == 1 and len(evidence.terms) >= MIN_TERMS:
        shared = len(evidence.terms & words_of(text))
        if shared >= MIN_TERMS and shared >= TERM_SHARE * len(evidence.terms):
            return "terms"
    return None


def _has_phrase(phrase: str, text: str) -> bool:
    """Whether a text contains a phrase; one of Latin letters only as whole words, and not one of function words."""
    if phrase not in text:
        return False
    if not phrase.isascii():
        return True
    return not words_of(phrase) <= _FUNCTION_WORDS and _contains(phrase.strip(), text)


def _contains(identifier: str, text: str) -> bool:
    """Whether a text contains an identifier as a complete word: 18080 does not contain 8080."""
    return re.search(rf"(?<![0-9a-z_]){re.escape(identifier)}(?![0-9a-z_])", text) is not None
