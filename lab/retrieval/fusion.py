"""Reciprocal rank fusion of the two lanes (E-10), k = 60."""

from __future__ import annotations

from collections.abc import Sequence

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Lanes
from lab.retrieval.row import Candidate, Row

K = 60
_new = tuple.__new__


def fuse(lanes: Lanes, rows: Sequence[Row], limit: int) -> list[Candidate]:
    """Each lane gives a row at rank r (from 1) ``1 / (60 + r)``.

    Fused score descending, then id ascending, cut to ``limit``. A row with an empty id holds its rank and is left out.
    The distance is that of the vector lane, or the text lane's where that is zero.

    The result is a pure rank score: at most 2/61, and it says nothing of how relevant the best row is.
    """
    fts, vec = lanes.fts, lanes.vec
    fts_ranks = {hit.row: rank for rank, hit in enumerate(fts, 1)}
    vec_ranks = {hit.row: rank for rank, hit in enumerate(vec, 1)}
    if len(fts_ranks) < len(fts) or len(vec_ranks) < len(vec):
        return _fuse_repeated(lanes, rows, limit)
    # Sorted as plain tuples, and made candidates only once they are known to stay: this runs for every tier of every
    # turn. The third value is a row's place in the text lane, or behind it: it decides between ids that collate alike.
    fused: list[tuple[float, str, int, int, int | None]] = []
    for row, rank in fts_ranks.items():
        other = vec_ranks.get(row)
        negative = -1.0 / (K + rank) - 1.0 / (K + other) if other else -1.0 / (K + rank)
        fused.append((negative, id_order(rows[row].id), rank, row, other))
    behind = len(fts)
    for row, rank in vec_ranks.items():
        if row not in fts_ranks:
            fused.append((-1.0 / (K + rank), id_order(rows[row].id), behind + rank, row, rank))
    fused.sort()
    candidates: list[Candidate] = []
    for negative, _, place, row, vec_rank in fused:
        if len(candidates) >= limit:
            break
        one = rows[row]
        if one.id:
            fts_rank = place if place <= behind else None
            distance = (vec[vec_rank - 1].distance if vec_rank else 0.0) or (
                fts[place - 1].distance if fts_rank else 0.0
            )
            # What Candidate(…) does, at half its cost.
            candidates.append(_new(Candidate, (one.id, -negative, one.created_at, fts_rank, vec_rank, distance)))
    return candidates


def _fuse_repeated(lanes: Lanes, rows: Sequence[Row], limit: int) -> list[Candidate]:
    """The same for lists that name a row more than once: every occurrence adds, the first gives the rank."""
    scores: dict[int, float] = {}
    ranks: tuple[dict[int, int], dict[int, int]] = ({}, {})
    distances: dict[int, float] = {}
    for in_vectors, hits in enumerate((lanes.fts, lanes.vec)):
        for rank, hit in enumerate(hits, 1):
            scores[hit.row] = scores.get(hit.row, 0.0) + 1.0 / (K + rank)
            ranks[in_vectors].setdefault(hit.row, rank)
            if hit.row not in distances or (in_vectors and hit.distance):
                distances[hit.row] = hit.distance
    order = sorted((row for row in scores if rows[row].id), key=lambda row: (-scores[row], id_order(rows[row].id)))
    return [
        Candidate(rows[row].id, scores[row], rows[row].created_at, ranks[0].get(row), ranks[1].get(row), distances[row])
        for row in order[: max(0, limit)]
    ]
