"""Fusion of the two lanes: by reciprocal ranks (E-10, k = 60), or by their scores.

Fusion by scores normalises those of each lane, then adds them with a weight. The methods and their sources are in
docs/design/fusion.md. All results are in 0..1; a row that a lane did not return gets nothing from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Candidate, Lanes, Row, cosine_of

# The lowest possible score of each lane: BM25 is at least 0, the cosine at least -1.
LEAST_TEXT, LEAST_COSINE = 0.0, -1.0
# Below the float32 precision of BM25, so that the last bits of a lane's score do not decide an order.
DIGITS = 7
Normalise = Callable[[Sequence[float], float], list[float]]


def minmax(scores: Sequence[float], _least: float) -> list[float]:
    """Map the lowest score of a lane to 0 and the highest to 1; equal scores become 1."""
    return theoretical(scores, min(scores))


def theoretical(scores: Sequence[float], least: float) -> list[float]:
    """Map the lowest possible score to 0 and the highest of a lane to 1; equal scores become 1."""
    span = max(scores) - least
    return [(score - least) / span if span > 0 else 1.0 for score in scores]


def distribution(scores: Sequence[float], _least: float) -> list[float]:
    """Map three standard deviations below the mean of a lane to 0, and above it to 1; equal scores become 0.5."""
    mean = math.fsum(scores) / len(scores)
    spread = 3.0 * math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    if spread <= 0:
        return [0.5] * len(scores)
    return [min(1.0, max(0.0, (score - mean + spread) / (2.0 * spread))) for score in scores]


NORMALISE: dict[str, Normalise] = {"minmax": minmax, "theoretical": theoretical, "distribution": distribution}


def fused_scores(lanes: Lanes, normalise: str, vector_weight: float, *, agreement: bool) -> dict[int, float]:
    """Return the fused score of each row, by its number.

    With ``agreement`` (CombMNZ), a row that only one lane returned gets half of its score.
    """
    scores: dict[int, float] = {}
    lanes_of: dict[int, int] = {}
    for hits, weight, least, raw in (
        (lanes.fts, 1.0 - vector_weight, LEAST_TEXT, [hit.score for hit in lanes.fts]),
        (lanes.vec, vector_weight, LEAST_COSINE, [cosine_of(hit.distance) for hit in lanes.vec]),
    ):
        seen: set[int] = set()
        normal = NORMALISE[normalise](raw, least) if raw else []
        for hit, value in zip(hits, normal, strict=True):
            if hit.row not in seen:
                seen.add(hit.row)
                scores[hit.row] = scores.get(hit.row, 0.0) + weight * value
                lanes_of[hit.row] = lanes_of.get(hit.row, 0) + 1
    return {row: round(score * lanes_of[row] / 2.0 if agreement else score, DIGITS) for row, score in scores.items()}


def inverse_square_scores(lanes: Lanes) -> dict[int, float]:
    """Return the score of each row by inverse square ranks, divided by its maximum of 4."""
    ranks: dict[int, list[int]] = {}
    for hits in (lanes.fts, lanes.vec):
        first: dict[int, int] = {}
        for rank, hit in enumerate(hits, 1):
            first.setdefault(hit.row, rank)
        for row, rank in first.items():
            ranks.setdefault(row, []).append(rank)
    return {row: len(by_lane) * sum(1.0 / rank**2 for rank in by_lane) / 4.0 for row, by_lane in ranks.items()}


K = 60
METHODS = ("rrf", "isr", "convex", "combmnz", "dbsf")
NORMALISATIONS = ("minmax", "theoretical")
_new = tuple.__new__
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Fusion:
    """How two lanes become one ranking.

    ``method``: reciprocal ranks (``rrf``, with ``k``), inverse square ranks (``isr``), a convex combination of
    normalised scores (``convex``), the same times the number of lanes (``combmnz``), or scores normalised by their
    distribution (``dbsf``). ``normalise`` applies to ``convex`` and ``combmnz``, ``vector_weight`` (the text lane has
    the rest) also to ``dbsf``.
    """

    method: str = "rrf"
    normalise: str = "minmax"
    vector_weight: float = 0.5
    k: int = K

    @property
    def best(self) -> float:
        """The highest possible score."""
        return 2.0 / (self.k + 1) if self.method == "rrf" else 1.0


RRF = Fusion()


def reciprocal_ranks(lanes: Iterable[Iterable[T]], k: int = K) -> dict[T, float]:
    """Return the score of everything in some lanes by reciprocal rank fusion, in the order of first occurrence.

    Each lane adds ``1 / (k + r)`` for every occurrence at rank r (from 1); lanes are added in their order.
    """
    scores: dict[T, float] = {}
    for lane in lanes:
        for rank, item in enumerate(lane, 1):
            scores[item] = scores.get(item, 0.0) + 1.0 / (k + rank)
    return scores


def fuse(lanes: Lanes, rows: Sequence[Row], limit: int, fusion: Fusion = RRF) -> list[Candidate]:
    """Fuse both lanes; with ``rrf``, each adds ``1 / (k + r)`` to the score of its row at rank r (from 1).

    Return fused score descending, then id ascending, cut to ``limit``. A row with an empty id keeps its rank and is
    left out. The distance is the vector lane's, or the text lane's if that is zero.

    With ``rrf`` the score depends on ranks alone: it is at most ``2 / (k + 1)`` and does not say how relevant the best
    row is.
    """
    if fusion.method not in ("rrf", "isr"):
        return _fuse_scores(lanes, rows, limit, fusion)
    fts, vec, k = lanes.fts, lanes.vec, fusion.k
    # This runs for every tier of every turn: hits and candidates are taken and made as plain tuples.
    fts_ranks = {hit[0]: rank for rank, hit in enumerate(fts, 1)}
    vec_ranks = {hit[0]: rank for rank, hit in enumerate(vec, 1)}
    if len(fts_ranks) < len(fts) or len(vec_ranks) < len(vec):
        return _fuse_scores(lanes, rows, limit, fusion)
    # The third value is a row's rank in the text lane, or a number beyond it; it breaks ties of ids that compare equal.
    fused: list[tuple[float, str, int, int, int | None]] = []
    behind, shares = len(fts), _shares(fusion.method, k, max(len(fts), len(vec)))
    agreement = 2.0 if fusion.method == "isr" else 1.0
    for row, rank in fts_ranks.items():
        other = vec_ranks.pop(row, None)
        negative = agreement * (shares[rank] + shares[other]) if other else shares[rank]
        fused.append((negative, id_order(rows[row].id), rank, row, other))
    for row, rank in vec_ranks.items():
        fused.append((shares[rank], id_order(rows[row].id), behind + rank, row, rank))
    fused.sort()
    candidates: list[Candidate] = []
    for negative, _, rank, row, vec_rank in fused:
        if len(candidates) >= limit:
            break
        memory = rows[row]
        if memory.id:
            fts_rank = rank if rank <= behind else None
            distance = (vec[vec_rank - 1][2] if vec_rank else 0.0) or (fts[rank - 1][2] if fts_rank else 0.0)
            candidates.append(_new(Candidate, (memory.id, -negative, memory.created_at, fts_rank, vec_rank, distance)))
    return candidates


@lru_cache(maxsize=64)
def _shares(method: str, k: int, ranks: int) -> tuple[float, ...]:
    """Return what a row loses at each rank from 1 on, so that the best sorts first; rank 0 has no meaning."""
    if method == "isr":
        return (0.0, *(-1.0 / rank**2 / 4.0 for rank in range(1, ranks + 1)))
    return (0.0, *(-1.0 / (k + rank) for rank in range(1, ranks + 1)))


def _fuse_scores(lanes: Lanes, rows: Sequence[Row], limit: int, fusion: Fusion) -> list[Candidate]:
    """Fuse by scores, or by ranks if a lane has a row twice."""
    if fusion.method == "rrf":
        # Every occurrence adds to the score of a row, and the first one is its rank.
        ranked = ([hit.row for hit in lanes.fts], [hit.row for hit in lanes.vec])
        return _ranked(lanes, rows, limit, reciprocal_ranks(ranked, fusion.k))
    if fusion.method == "isr":
        return _ranked(lanes, rows, limit, inverse_square_scores(lanes))
    normalise = "distribution" if fusion.method == "dbsf" else fusion.normalise
    agreement = fusion.method == "combmnz"
    return _ranked(lanes, rows, limit, fused_scores(lanes, normalise, fusion.vector_weight, agreement=agreement))


def _ranked(lanes: Lanes, rows: Sequence[Row], limit: int, scores: dict[int, float]) -> list[Candidate]:
    """Return candidates from the score of each row; the first occurrence of a row in a lane is its rank."""
    ranks: tuple[dict[int, int], dict[int, int]] = ({}, {})
    distances: dict[int, float] = {}
    for in_vectors, hits in enumerate((lanes.fts, lanes.vec)):
        for rank, hit in enumerate(hits, 1):
            ranks[in_vectors].setdefault(hit.row, rank)
            if hit.row not in distances or (in_vectors and hit.distance):
                distances[hit.row] = hit.distance
    order = sorted((row for row in scores if rows[row].id), key=lambda row: (-scores[row], id_order(rows[row].id)))
    return [
        Candidate(rows[row].id, scores[row], rows[row].created_at, ranks[0].get(row), ranks[1].get(row), distances[row])
        for row in order[: max(0, limit)]
    ]
