"""Detect exact or very strong lexical hits (seed 000; E-57), which are exempt from repeat suppression."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lab.retrieval.stop_words import ENGLISH
from lab.systems.openclaw.near_duplicate import CJK_RUN, words_of

MIN_PHRASE, MIN_CJK_RUN, MIN_TERMS, TERM_SHARE = 2, 4, 2, 0.8
# Each alternative is anchored at the start of a word, a run of letters or a path, because trying it at every character
# takes time quadratic in the length of a word.
_IDENTIFIER = re.compile(
    r"(?<!\w)[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"  # UUID
    r"|(?<![\w.-])(?:[\w.-]+)?(?:/[\w.-]+)+"  # path
    r"|(?<!\w)(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?!\w)"  # commit
    r"|(?<!\w)\w+(?:[._:-]\w+)+"  # dotted, dashed or underscored name, version, error code
    r"|(?<![A-Z])[A-Z]+[0-9]{2,}\w*"  # error code
    r"|[0-9]{4,}",
    re.ASCII | re.IGNORECASE,
)
_QUOTED = re.compile('"([^"]*)"|“([^“”]*)”|「([^「」]*)」|『([^『』]*)』|`([^`]*)`')
_PLAIN_WORD = re.compile(r"[a-z]+(?:[-'][a-z]+)*", re.IGNORECASE)


class Evidence(NamedTuple):
    """The parts of a query that count as evidence, in lower case."""

    identifiers: frozenset[str]
    phrases: frozenset[str]
    terms: frozenset[str]


@lru_cache(maxsize=1024)
def evidence_of(query: str) -> Evidence:
    """Return the identifiers, phrases and content words of a query."""
    lowered = query.lower()
    # A hyphenated word of letters only is prose ("follow-up"), not an identifier.
    identifiers = frozenset(name for name in _IDENTIFIER.findall(lowered) if not _PLAIN_WORD.fullmatch(name))
    quoted = {part for groups in _QUOTED.findall(lowered) for part in groups if len(part.strip()) >= MIN_PHRASE}
    runs = {run for run in CJK_RUN.findall(lowered) if len(run) >= MIN_CJK_RUN}
    return Evidence(identifiers, frozenset(quoted | runs), words_of(query) - frozenset(ENGLISH))


def exact_hit(query: str, text: str, fts_rank: int | None) -> str | None:
    """Return the rule that makes ``text`` an exact hit for ``query``: identifier, phrase or terms; None if none does.

    ``identifier``: the text contains a path, name, code or number of the query. ``phrase``: it contains a quoted phrase
    or a run of at least four CJK characters. ``terms``: it ranks first of its tier in the text lane and contains at
    least two and four fifths of the query's content words.
    """
    evidence = evidence_of(query)
    lowered = text.lower()
    if any(_contains(identifier, lowered) for identifier in evidence.identifiers):
        return "identifier"
    if any(phrase in lowered for phrase in evidence.phrases):
        return "phrase"
    if fts_rank == 1 and len(evidence.terms) >= MIN_TERMS:
        shared = len(evidence.terms & words_of(text))
        if shared >= MIN_TERMS and shared >= TERM_SHARE * len(evidence.terms):
            return "terms"
    return None


def _contains(identifier: str, text: str) -> bool:
    """Whether a text contains an identifier as a complete word: 18080 does not contain 8080."""
    return re.search(rf"(?<![0-9a-z_]){re.escape(identifier)}(?![0-9a-z_])", text) is not None
