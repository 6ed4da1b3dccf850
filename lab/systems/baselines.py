"""Untiered retrieval, and the floor and the ceiling of every chart.

``vector``, ``bm25`` and ``hybrid`` rank the whole visible pool; ``recency``, ``random``, ``none`` and ``oracle`` need
no search at all.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from lab.draw import draw
from lab.retrieval.contract import Filter, Hit, Lanes
from lab.retrieval.fusion import fuse
from lab.retrieval.row import Candidate, Row
from lab.systems.contract import Recall, Request, Retrieval
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.finish import finish
from lab.systems.openclaw.recall.receipt import Found
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.select.outcome import Picked, Selection

LANE_DEPTH = 50
SEARCHING = ("vector", "bm25", "hybrid")
SEARCHLESS = ("recency", "none", "random", "oracle")
_TIER = {"must_remember": "must", "nice_to_have": "nice", "ignore": "ignore", "unknown": "unknown"}


class Baseline:
    """An arm without tiers. It keeps a ranking of ``depth`` items and injects the first ``max_items`` of them."""

    def __init__(self, kind: str, config: EngineConfig, depth: int, seed: int, name: str | None = None) -> None:
        self.kind = kind
        self.name = name or kind
        self.config = config
        self.depth = depth
        self.seed = seed
        self.retrieval = Retrieval(config.text, config.embedding)

    def fresh(self) -> Baseline:
        """Itself: it has no past."""
        return self

    def describe(self) -> dict[str, Any]:
        """Name and configuration; the seed is the random arm's alone."""
        about = {"name": self.name, "system": self.kind, "depth": self.depth, "config": self.config.describe()}
        return about | ({"seed": self.seed} if self.kind == "random" else {})

    def select(self, request: Request, memories: Memories) -> Recall:
        """Rank what is visible in the request's scope."""
        started = time.perf_counter_ns()
        if self.kind in SEARCHING:
            lanes = memories.view.search(Filter(request.scope), max(LANE_DEPTH, self.depth))
            found = self._searched(lanes, memories.rows)
        else:
            lanes = Lanes([], [])
            found = self._searchless(request, memories.present)
        picked = [Picked(candidate, _TIER[row.importance_label], "ranked") for row, candidate in found]
        timings = {"search": lanes.nanoseconds, "select": time.perf_counter_ns() - started}
        raw = [[Found(memories.rows[row].id, score, distance) for row, score, distance in lane] for lane in lanes[:2]]
        return finish(
            self.kind, request, Selection(picked, [], []), (raw[0], raw[1]), memories, self.config.max_items, timings
        )

    def _searched(self, lanes: Lanes, rows: Sequence[Row]) -> list[tuple[Row, Candidate]]:
        if self.kind == "hybrid":
            both = Lanes(lanes.fts[:LANE_DEPTH], lanes.vec[:LANE_DEPTH])
            by_id = {rows[hit.row].id: rows[hit.row] for hits in both[:2] for hit in hits}
            return [(by_id[candidate.id], candidate) for candidate in fuse(both, rows, self.depth)]
        hits = (lanes.vec if self.kind == "vector" else lanes.fts)[: self.depth]
        return [(rows[hit.row], self._ranked(hit, rows[hit.row], rank)) for rank, hit in enumerate(hits, 1)]

    def _ranked(self, hit: Hit, row: Row, rank: int) -> Candidate:
        in_vectors = self.kind == "vector"
        return Candidate(row.id, hit.score, row.created_at, None if in_vectors else rank, rank if in_vectors else None)

    def _searchless(self, request: Request, rows: Sequence[Row]) -> list[tuple[Row, Candidate]]:
        pool = [row for row in rows if request.scope is None or row.scope == request.scope]
        if self.kind == "none":
            return []
        if self.kind == "recency":
            ordered = [(float(row.created_at), row) for row in sorted(pool, key=lambda row: (-row.created_at, row.id))]
        elif self.kind == "oracle":
            gold = [row for row in pool if row.key in request.relevant]
            ordered = [
                (float(request.relevant[row.key]), row)
                for row in sorted(gold, key=lambda row: (-request.relevant[row.key], row.id))
            ]
        else:
            draws = [(draw(self.seed, f"{request.key} {row.key}"), row) for row in pool]
            ordered = sorted(draws, key=lambda pair: (-pair[0], pair[1].id))
        return [(row, Candidate(row.id, score, row.created_at)) for score, row in ordered[: self.depth]]
