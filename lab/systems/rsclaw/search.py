"""Hybrid search: words and vectors, fused by rank, weighted by decay and quality (RS-10, RS-11). Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from lab.base.files import digest
from lab.retrieval.contract import Candidate, Filter, Hit, Lanes, Row, View
from lab.retrieval.fusion import fuse
from lab.systems.rsclaw.config import Settings
from lab.systems.rsclaw.decay import CORE, PERIPHERAL, WORKING, relevance, rounding
from lab.systems.rsclaw.document import Document

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
