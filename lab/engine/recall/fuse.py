"""Reciprocal rank fusion of the two lanes (spec 2.4), k = 60."""

from __future__ import annotations

from collections.abc import Sequence

from lab.engine.memory import Candidate, Row
from lab.engine.store.contract import Lanes

K = 60


def fuse(lanes: Lanes, rows: Sequence[Row], limit: int) -> list[Candidate]:
    """Each lane gives a row at rank r (from 1) ``1 / (60 + r)``.

    Fused score descending, then id ascending, cut to ``limit``.

    The result is a pure rank score: at most 2/61, and it says nothing of how relevant the best row is.
    """
    fts_ranks = {hit.row: rank for rank, hit in enumerate(lanes.fts, 1)}
    vec_ranks = {hit.row: rank for rank, hit in enumerate(lanes.vec, 1)}
    # Sorted as plain tuples, and made candidates only once they are known to stay: this runs for every tier of every
    # turn.
    fused = [
        (-1.0 / (K + rank) - (1.0 / (K + vec_ranks[row]) if row in vec_ranks else 0.0), rows[row].id, row)
        for row, rank in fts_ranks.items()
    ]
    fused += [(-1.0 / (K + rank), rows[row].id, row) for row, rank in vec_ranks.items() if row not in fts_ranks]
    fused.sort()
    return [
        Candidate(identity, -negative, rows[row].created_at, fts_ranks.get(row), vec_ranks.get(row))
        for negative, identity, row in fused[:limit]
    ]
