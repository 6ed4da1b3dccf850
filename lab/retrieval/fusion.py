"""Reciprocal rank fusion of the two lanes (E-10), k = 60."""

from __future__ import annotations

from collections.abc import Sequence

from lab.retrieval.collation import id_order
from lab.retrieval.contract import Lanes
from lab.retrieval.row import Candidate, Row

K = 60
_new = tuple.__new__


def fuse(lanes: Lanes, rows: Sequence[Row], limit: int) -> list[Candidate]:
    """Fuse both lanes: each adds ``1 / (60 + r)`` to the score of its row at rank r (from 1).

    Return fused score descending, then id ascending, cut to ``limit``. A row with an empty id keeps its rank and is
    left out. The distance is the vector lane's, or the text lane's if that is zero.

    The score depends on ranks alone: it is at most 2/61 and does not say how relevant the best row is.
    """
    fts, vec = lanes.fts, lanes.vec
    fts_ranks = {hit.row: rank for rank, hit in enumerate(fts, 1)}
    vec_ranks = {hit.row: rank for rank, hit in enumerate(vec, 1)}
    if len(fts_ranks) < len(fts) or len(vec_ranks) < len(vec):
        return _fuse_repeated(lanes, rows, limit)
    # Sort plain tuples and create candidates only for those that stay: this runs for every tier of every turn. The
    # third value is a row's rank in the text lane, or a number beyond it; it breaks ties of ids that compare equal.
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
    for negative, _, rank, row, vec_rank in fused:
        if len(candidates) >= limit:
            break
        memory = rows[row]
        if memory.id:
            fts_rank = rank if rank <= behind else None
            distance = (vec[vec_rank - 1].distance if vec_rank else 0.0) or (
                fts[rank - 1].distance if fts_rank else 0.0
            )
            # Does what Candidate(…) does at half the cost.
            candidates.append(_new(Candidate, (memory.id, -negative, memory.created_at, fts_rank, vec_rank, distance)))
    return candidates


def _fuse_repeated(lanes: Lanes, rows: Sequence[Row], limit: int) -> list[Candidate]:
    """Fuse lanes that contain a row more than once: every occurrence adds to its score, the first one is its rank."""
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
