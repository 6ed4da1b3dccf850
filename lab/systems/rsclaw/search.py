"""Hybrid search, and the injected block of its first documents. Pure functions.

Words and vectors are fused by rank and weighted by decay and quality (RS-10, RS-11). The block has one line a document,
within a budget of tokens (RS-13).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lab.base.files import digest
from lab.base.token_estimate import tokens
from lab.retrieval.contract import Candidate, Filter, Hit, Lanes, Row, View
from lab.retrieval.fusion import fuse
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.document import CORE, PERIPHERAL, WORKING, Document, relevance, rounding

_TIER_QUALITY = {CORE: 1.15, WORKING: 1.0, PERIPHERAL: 0.8}
Search = Callable[[View, Filter, int], Lanes]


class Ranked(NamedTuple):
    """A document in the ranking: its score, the factors of it, and its ranks in both lanes, from 1.

    ``fused`` is its rank by rank fusion alone. ``tier`` is its tier before this search touches it.
    """

    document: Document
    score: float
    rrf: float
    relevance: float
    quality: float
    fused: int
    fts: int | None
    vec: int | None
    tier: str


def lanes_of(view: View, rows: Sequence[Row], scope: str | None, k: int, settings: Settings, search: Search) -> Lanes:
    """Search for ``k`` final documents: words to depth 4k, vectors to 3k (RS-10).

    With ``scope_filter`` after, the nearest 3k + 10 documents of all scopes are searched and those of the scope kept,
    so that other scopes can take all slots.
    """
    after = settings.scope_filter == "after"
    words = max(16, 4 * k) if after else 4 * k
    lanes = search(view, Filter(scope), words)
    near: Sequence[Hit] = lanes.vec
    if after:
        wide = search(view, Filter(), 3 * k + 10).vec[: 3 * k + 10]
        near = [hit for hit in wide if scope is None or rows[hit.row].scope == scope]
    return Lanes(lanes.fts[:words], list(near[: 3 * k]), lanes.nanoseconds)


def ranking(
    lanes: Lanes, rows: Sequence[Row], documents: Mapping[str, Document], settings: Settings, now: int, turn: str
) -> list[Ranked]:
    """Return all hits, best first (RS-11). ``now`` is in seconds; ``turn`` names the query for ties by hash."""
    r = rounding(f32=settings.f32)
    fused = fuse(lanes, rows, len(lanes.fts) + len(lanes.vec))

    def ranked(rank: int, candidate: Candidate) -> Ranked:
        document = documents[candidate.id]
        decayed = relevance(document.vitals(now), f32=settings.f32) if settings.decay else 1.0
        quality = quality_of(document, f32=settings.f32) if settings.quality else 1.0
        score = r(r(r(candidate.score) * decayed) * quality)
        ranks = candidate.fts_rank, candidate.vec_rank
        return Ranked(document, score, candidate.score, decayed, quality, rank, *ranks, document.tier)

    def tie(item: Ranked) -> str:
        return item.document.id if settings.ties == "id" else digest([turn, item.document.id])

    return sorted(map(ranked, range(1, len(fused) + 1), fused), key=lambda item: (-item.score, tie(item)))


def quality_of(document: Document, *, f32: bool = False) -> float:
    """Return the multiplier for pinned documents, their tier and their importance (RS-11)."""
    r = rounding(f32=f32)
    pinned = 1.25 if document.pinned else 1.0
    weight = r(0.75 + r(0.5 * min(max(r(document.importance), r(0.01)), 1.0)))
    return r(r(pinned * r(_TIER_QUALITY[document.tier])) * weight)


def touched(ranked: Sequence[Ranked], shown: Sequence[Document], settings: Settings) -> list[Document]:
    """Return the documents that a search touches, in the order of the ranking (RS-12)."""
    if settings.touch == "none":
        return []
    if settings.touch == "shown":
        return list(shown)
    return [item.document for item in ranked if settings.touch == "hits" or item.vec is not None]


# A first line that is cut keeps at least this many characters.
LEAST = 64


class Bundle(NamedTuple):
    """The block, the documents in it, whether the budget cut or dropped any, and how many lines are shortened texts."""

    context: str = ""
    shown: tuple[Document, ...] = ()
    truncated: bool = False
    shortened: int = 0


def bundle(documents: Sequence[Document], settings: Settings) -> Bundle:
    """Return the block of the final documents, best first.

    Notes and empty texts are left out, and their slots stay empty. The block ends before the first line that would
    exceed the budget; a first line that does is cut.
    """
    block, shown, shortened = "", list[Document](), 0
    for document in documents:
        text = line_text(document, settings)
        if document.kind == "note" or not text:
            continue
        longer = f"{block}\n- {text}" if block else f"- {text}"
        if tokens(longer) > settings.max_tokens:
            if shown:
                return Bundle(block, tuple(shown), truncated=True, shortened=shortened)
            return Bundle(cut(longer, settings), (document,), truncated=True, shortened=1)
        block = longer
        shown.append(document)
        shortened += text != document.text.strip()
    return Bundle(block, tuple(shown), shortened=shortened)


def line_text(document: Document, settings: Settings) -> str:
    """Return the text of a document's line: its overview, or its whole text."""
    return ((settings.lines == "overview" and document.overview_text) or document.text).strip()


def cut(line: str, settings: Settings) -> str:
    """Return the start of a line: four characters a token, or in profile ``seed`` as much as the budget allows."""
    start = line[: max(LEAST, 4 * settings.max_tokens)]
    if settings.clip == "budget" and tokens(start) > settings.max_tokens:
        longer = range(LEAST + 1, len(start) + 1)
        room = settings.max_tokens
        start = start[: LEAST + bisect_right(longer, room, key=lambda length: tokens(start[:length]))]
    return start
