"""The neighbourhood of the entities that a query names, as a lane of a pack (GR-6)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lab.base.errors import LabError
from lab.memory.graph.export import read_graph
from lab.memory.graph.model import Graph
from lab.memory.graph.search import Reached, neighbourhood, starts_of
from lab.memory.pack.candidate import UNSCOPED, Candidate, Found


class GraphLane:
    """A lane that offers the relations around the entities of a query, from an exported graph (GR-7)."""

    name = "graph"

    def __init__(self, path: Path, *, depth: int = 2) -> None:
        self._path, self._depth = path, depth
        self._graph: Graph | None = None

    def search(self, query: str, limit: int, *, scope: str | None, now_ms: int) -> Found:
        """Return relations that were known at ``now_ms``, the nearest first, each with its path from the query.

        A candidate is the last edge of a path. Its sources are the first references of the edges, because the file has
        no times of later references. A graph has no scope: a project is an entity. The file is read at the first
        search.
        """
        try:
            if self._graph is None:
                self._graph = read_graph(self._path)
        except (LabError, OSError):
            reason = f"{self._path} cannot be read as a graph; lab memory graph show --graph says why"
            return Found(self.name, (), False, reason)
        starts = starts_of(self._graph, query)
        if not starts:
            return Found(self.name, (), True, "the query names no entity")
        near = neighbourhood(
            self._graph, starts, depth=self._depth, limit=limit, allowed=lambda edge: edge.first_ms <= now_ms
        )
        return Found(
            self.name, [_candidate(one, rank) for rank, one in enumerate(near)], reason=UNSCOPED if scope else None
        )


def _candidate(one: Reached, rank: int) -> Candidate:
    last = one.path[-1]
    identity = hashlib.sha256(" ".join(last[:3]).encode("utf-8", "replace")).hexdigest()[:20]
    return Candidate(
        ref=f"edge_{identity}",
        # No arrows, which a bundle would have to escape.
        text="; ".join(f"{edge.source} {edge.type} {edge.target} ({edge.evidence[0]})" for edge in one.path),
        lane=GraphLane.name,
        score=1.0 / (len(one.path) + rank),
        kind="entity",
        ts_ms=last.first_ms,
        retrievers=("graph",),
        sources=tuple(dict.fromkeys(edge.evidence[0] for edge in one.path)),
    )
