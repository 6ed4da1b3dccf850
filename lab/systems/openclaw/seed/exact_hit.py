"""When a memory is an exact or very strong lexical hit (seed 000; E-57): such a one is exempt from suppression."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from lab.retrieval.stop_words import ENGLISH
from lab.systems.openclaw.near_duplicate import CJK_RUN, words_of

MIN_PHRASE, MIN_CJK_RUN, MIN_TERMS, TERM_SHARE = 2, 4, 2, 0.8
# Each begins where a word, a run of letters or a path begins: tried at every character, a long word would take time by
# the square of its length.
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
    """What of a query counts as evidence, each lower-cased."""

    identifiers: frozenset[str]
    phrases: frozenset[str]
    terms: frozenset[str]


@lru_cache(maxsize=1024)
def evidence_of(query: str) -> Evidence:
    """The identifiers, phrases and content words of a query."""
    lowered = query.lower()
    # A hyphenated word of letters alone is prose ("follow-up"), not a name.
    identifiers = frozenset(one for one in _IDENTIFIER.findall(lowered) if not _PLAIN_WORD.fullmatch(one))
    quoted = {part for found in _QUOTED.findall(lowered) for part in found if len(part.strip()) >= MIN_PHRASE}
    runs = {run for run in CJK_RUN.findall(lowered) if len(run) >= MIN_CJK_RUN}
    return Evidence(identifiers, frozenset(quoted | runs), words_of(query) - frozenset(ENGLISH))


def exact_hit(query: str, text: str, fts_rank: int | None) -> str | None:
    """Which rule makes ``text`` an exact hit for ``query``: identifier, phrase or terms; None if none does.

    ``identifier``: a path, name, code or number of the query stands in the text. ``phrase``: a quoted phrase or a run
    of four CJK characters does. ``terms``: the text is the first of its tier in the text lane and holds four fifths of
    the query's content words, two at least.
    """
    evidence = evidence_of(query)
    lowered = text.lower()
    if any(_stands_in(identifier, lowered) for identifier in evidence.identifiers):
        return "identifier"
    if any(phrase in lowered for phrase in evidence.phrases):
        return "phrase"
    if fts_rank == 1 and len(evidence.terms) >= MIN_TERMS:
        shared = len(evidence.terms & words_of(text))
        if shared >= MIN_TERMS and shared >= TERM_SHARE * len(evidence.terms):
            return "terms"
    return None


def _stands_in(identifier: str, text: str) -> bool:
    """Whether an identifier occurs as a whole: 8080 is not in 18080."""
    return re.search(rf"(?<![0-9a-z_]){re.escape(identifier)}(?![0-9a-z_])", text) is not None
