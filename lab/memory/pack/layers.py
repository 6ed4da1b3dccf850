"""The layers of a candidate: L0, one line; L1, its overview; L2, a part of its raw record (seed 003, PK-4, PK-5).

A line of the bundle has a cost, a text, and the decision behind it (PK-1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from lab.base.regex import regex
from lab.base.token_estimate import tokens
from lab.memory.pack.candidate import ABSTRACT, Candidate, Settings
from lab.memory.tools.redact import redactor
from lab.retrieval.sentence_words import PIECE, Sentence, one_line, sentences, stems

L0, L1, L2 = "L0", "L1", "L2"
# The most tokens of a part of a raw record, without its citation.
DETAIL = 128
ELLIPSIS = "…"
# Of a long text or raw record, only so many characters are read.
READ = 200_000
_redact = redactor(upstream=False)
# The folder of a user, as it is on Linux, macOS and Windows.
_HOME = regex(r"""(?<![\w.~])(?:/(?:home|Users)/[^/\s"'`]+|/root(?![\w.-])|[A-Za-z]:\\Users\\[^\\\s"'`]+)""")
# Reasons of a candidate, as a trace names them.
MAX_ITEMS, OVER_BUDGET, EVENT_CAPPED = "max_items_reached", "budget_tokens_exceeded", "quota_event_capped"
DUPLICATE = "duplicate_text"
# The kind of a turn of the tail.
RECENT_TURN = "recent_turn"
WITHIN = ("within_item_limit", "within_budget")
ABSTRACT_FITS, NEEDS_DETAIL, DISSENT = "overview_over_budget", "detail_needed", "dissent_slot"


class Layers(NamedTuple):
    """The texts that a candidate may be packed as, each on one line.

    ``overview`` is its whole text; ``is_long``: too long to be packed before other candidates had their turn.
    ``detail`` None: the raw record is not needed.
    """

    abstract: str
    overview: str
    is_long: bool
    detail: str | None = None


def layers_of(candidate: Candidate, terms: frozenset[str], names: Sequence[str], most: int) -> Layers:
    """Return the layers of a candidate for a query with these stems and names.

    A text of over ``most`` tokens is long, and one of over :data:`READ` characters has no overview.
    """
    candidate = candidate._replace(
        text=without_home(candidate.text), detail=candidate.detail and without_home(candidate.detail)
    )
    overview = one_line(candidate.text) if len(candidate.text) <= READ else ""
    is_long = not overview or tokens(overview) > most
    abstract = abstract_of(candidate.abstract.strip() or candidate.text, terms)
    known = f"{candidate.abstract}\n{abstract if is_long else overview}"
    # A text that is too long is its own raw record.
    raw = candidate.detail or (candidate.text if is_long else "")
    detail = _detail_of(raw[:READ], known, names)
    if detail and candidate.detail:
        # A field of a record does not say what it is of, as a sentence of the text does.
        both = f"{abstract} {detail}".replace(f"{ELLIPSIS} {ELLIPSIS}", ELLIPSIS)
        detail = both if tokens(both) <= DETAIL else detail
    return Layers(abstract, overview, is_long, detail)


def without_home(text: str) -> str:
    """Return a text in which a path of a home folder starts with ``~``: a pack has no private paths (seed 003)."""
    return _HOME.sub("~", text)


def abstract_of(text: str, terms: frozenset[str]) -> str:
    """Return a text on one line of at most :data:`ABSTRACT` tokens.

    It is whole, or has the sentences with the most stems of the query. Sentences stay in order, and gaps are marked by
    an ellipsis. Without a stem in common, it is the first sentences.
    """
    line = one_line(text[:READ])
    if tokens(line) <= ABSTRACT:
        return line
    parts = sentences(text[:READ])
    ranked = sorted(range(len(parts)), key=lambda at: (-len(parts[at].stems & terms), at))
    chosen: list[int] = []
    for at in ranked:
        # A sentence with no word of the query adds nothing to one that has some.
        if chosen and not parts[at].stems & terms and parts[chosen[0]].stems & terms:
            break
        if tokens(_joined(parts, sorted([*chosen, at]))) <= ABSTRACT:
            chosen.append(at)
        elif not chosen:
            return shortened(_from_first_term(parts[at], terms, ABSTRACT // 2), ABSTRACT)
    return _joined(parts, sorted(chosen))


def shortened(text: str, most: int) -> str:
    """Return the longest start of a text that has at most ``most`` tokens with its ellipsis, cut after a word."""
    if tokens(text) <= most:
        return text
    low, high = 0, min(len(text), 4 * most + 4)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens(text[:middle] + ELLIPSIS) <= most else (low, middle - 1)
    start = text[:low]
    word = start.rfind(" ")
    return (start[:word] if word > low // 2 else start).rstrip() + ELLIPSIS if low else ""


def _joined(parts: Sequence[Sentence], chosen: Sequence[int]) -> str:
    pieces: list[str] = []
    previous = -1
    for at in chosen:
        pieces += [ELLIPSIS] * (at > previous + 1) + [parts[at].text]
        previous = at
    return " ".join(pieces + [ELLIPSIS] * (previous < len(parts) - 1))


def _from_first_term(sentence: Sentence, terms: frozenset[str], before: int) -> str:
    """Return a sentence from three words before its first word of the query on, at most ``before`` tokens before."""
    text = sentence.text
    places = (match for match in PIECE.finditer(text) if stems(match[1] or match[0]) & terms)
    first = next(places, None) if sentence.stems & terms else None
    if first is None:
        return text
    lead = " ".join(text[: first.start()].split(" ")[-4:])
    return _from(text, first.start() - len(lead), first.start(), before)


def _from(text: str, begin: int, at: int, before: int) -> str:
    """Return a text from ``begin`` on, or from where at most ``before`` tokens precede ``at``."""
    begin = max(0, begin, at - 4 * before)
    begin = next(start for start in range(begin, at + 1) if tokens(text[start:at]) <= before)
    return f"{ELLIPSIS} {text[begin:]}" if begin else text


def _detail_of(raw: str, known: str, names: Sequence[str]) -> str | None:
    """Return the lines of the raw record around names of the query that abstract and overview lack (PK-5).

    None unless the record has a name that both lack. Secrets are replaced.
    """
    if not raw or not names:
        return None
    missing = _held(raw, names)
    missing = [name for name in missing if name not in _held(known, missing)]
    if not missing:
        return None
    parts = sentences(_redact(raw))
    hits = [at for at, part in enumerate(parts) if _held(part.text, missing)]
    kept: list[int] = []
    for at in hits:
        if tokens(_joined(parts, [*kept, at])) > DETAIL:
            break
        kept.append(at)
    if not kept and hits:
        text = parts[hits[0]].text
        start = min(place.start() for name in missing if (place := _place(text, name)))
        return shortened(_from(text, start - DETAIL, start, DETAIL // 2), DETAIL)
    return _joined(parts, kept) or None


def _held(text: str, names: Sequence[str]) -> list[str]:
    # A search for bytes is much faster than a pattern, and most texts have none of the names.
    small = _small(text)
    return [name for name in names if _small(name) in small and _place(text, name)]


def _small(text: str) -> bytes:
    """Return a text in bytes, with its ASCII letters in lower case."""
    return text.encode("utf-8", "surrogatepass").lower()


def _place(text: str, name: str) -> re.Match[str] | None:
    """Return where a text has a name as a word of its own; Chinese may touch it."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.ASCII | re.IGNORECASE)


class Line(NamedTuple):
    """An included candidate: its layer, its text on one line, and the ref that it disagrees with, if any."""

    candidate: Candidate
    layer: str
    text: str
    against: str | None = None


class Decision(NamedTuple):
    """Whether a candidate was included, in which layer, and every reason. ``l2_cap``: too many raw records."""

    candidate: Candidate
    included: bool
    reasons: tuple[str, ...]
    layer: str = L1
    l2_cap: bool = False


def rendered(line: Line, settings: Settings) -> str:
    """Return a line of the bundle. Profile ``seed`` escapes markup, so that no text can close a block around it.

    It also escapes citations, which may contain the name of a file or an id that another program wrote.
    """
    if settings.is_upstream:
        return f"- [{line.candidate.ref}] {line.text}"
    against = f", unlike {line.against}" if line.against else ""
    return f"- [{escape(one_line(line.candidate.ref + against), quote=False)}] {escape(line.text, quote=False)}"


def cost(text: str, settings: Settings) -> int:
    """Return the tokens of a text: the lab's estimate, or the sidecar's, four characters a token."""
    return max(1, -(-len(text) // 4)) if settings.is_upstream else tokens(text)
