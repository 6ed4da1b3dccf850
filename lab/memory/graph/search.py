"""Walk a graph: the neighbourhood of entities and the shortest path between two, each step with its evidence (GR-5).

The lane of a pack offers the neighbourhood of the entities that a query names (GR-6).
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import LabError
from lab.memory.graph.build import PERSON, Edge, Graph, marked, read_graph, type_of
from lab.memory.pack.candidate import UNSCOPED, Candidate, Found

# Edges of one entity that a neighbourhood follows, so that one that everything touches costs no more than others.
BREADTH = 32
Allowed = Callable[[Edge], bool]


class Reached(NamedTuple):
    """An entity, and the edges from a start to it, which explain why it is included."""

    entity: str
    path: tuple[Edge, ...]


def neighbourhood(
    graph: Graph, starts: Sequence[str], *, depth: int = 2, limit: int = 20, allowed: Allowed = bool
) -> list[Reached]:
    """Return the entities around some others, the nearest first, each once and by a shortest path.

    They are at most ``depth`` edges away; at most :data:`BREADTH` edges of an entity are followed, to rare entities
    first. ``allowed`` chooses the edges. The starts are not among the results.
    """
    seen = {start for start in starts if start in graph}
    queue = deque(Reached(start, ()) for start in starts if start in graph)
    found: list[Reached] = []
    while queue and len(found) < limit:
        at = queue.popleft()
        if len(at.path) == depth:
            continue
        for edge in islice(filter(allowed, graph.of(at.entity)), BREADTH):
            if (entity := edge.other(at.entity)) not in seen:
                seen.add(entity)
                reached = Reached(entity, (*at.path, edge))
                found.append(reached)
                queue.append(reached)
    return found[:limit]


def shortest_path(graph: Graph, source: str, target: str) -> tuple[Edge, ...] | None:
    """Return the edges of a shortest path between two entities, in any direction; None if there is none."""
    if source not in graph or target not in graph:
        return None
    came: dict[str, tuple[str, Edge] | None] = {source: None}
    queue = deque([source])
    while queue and target not in came:
        at = queue.popleft()
        for edge in graph.of(at):
            if (entity := edge.other(at)) not in came:
                came[entity] = (at, edge)
                queue.append(entity)
    if target not in came:
        return None
    path: list[Edge] = []
    step = came[target]
    while step is not None:
        path.append(step[1])
        step = came[step[0]]
    return tuple(reversed(path))


def described(start: str, path: Iterable[Edge]) -> str:
    """Return a path on one line, ``a -USES-> b <-DECIDES- c (obs:1, obs:2)``, with the first evidence of each edge."""
    text, refs, at = start, [], start
    for edge in path:
        forward = edge.source == at
        at = edge.other(at)
        text += f" -{edge.type}-> {at}" if forward else f" <-{edge.type}- {at}"
        refs.append(edge.evidence[0])
    return f"{text} ({', '.join(dict.fromkeys(refs))})"


def start_of(one: Reached) -> str:
    """Return the entity that a path starts at."""
    at = one.entity
    for edge in reversed(one.path):
        at = edge.other(at)
    return at


def starts_of(graph: Graph, text: str) -> list[str]:
    """Return the entities that a text names, by their words, and the persons that an address or @name marks."""
    persons = [entity for entity in marked(text) if type_of(entity) == PERSON and entity in graph]
    return list(dict.fromkeys([*graph.named(text), *persons]))


class GraphLane:
    """A lane that offers the relations around the entities of a query, from an exported graph (GR-7)."""

    name = "graph"

    def __init__(self, path: Path) -> None:
        self._path = path
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
        near = neighbourhood(self._graph, starts, limit=limit, allowed=lambda edge: edge.first_ms <= now_ms)
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
