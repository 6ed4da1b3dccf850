"""A graph of typed entities and edges (seed 003, GR-1). It finds entities by the words of their names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lab.retrieval.sentence_words import words

PROJECT, REPO, DECISION, CONCEPT, TOOL, PERSON = "project", "repo", "decision", "concept", "tool", "person"
TYPES = (PROJECT, REPO, DECISION, CONCEPT, TOOL, PERSON)
# In the order in which a traversal follows them: the most informative first.
USES, BLOCKED_BY, DECIDES, EVALUATES, RELATES_TO, MENTIONS = EDGES = (
    "USES",
    "BLOCKED_BY",
    "DECIDES",
    "EVALUATES",
    "RELATES_TO",
    "MENTIONS",
)
# References that an edge keeps; the others are counted.
MOST_EVIDENCE = 8


class Edge(NamedTuple):
    """A relation of two entities: the first references that support it, their full number, and the first time.

    ``first_ms`` is in UTC milliseconds.
    """

    source: str
    type: str
    target: str
    evidence: tuple[str, ...]
    times: int
    first_ms: int

    def other(self, entity: str) -> str:
        """Return the entity at the other end."""
        return self.target if entity == self.source else self.source

    def __str__(self) -> str:
        """Return the edge with its evidence on one line."""
        more = f" and {self.times - len(self.evidence)} more" if self.times > len(self.evidence) else ""
        return f"{self.source} {self.type} {self.target} ({', '.join(self.evidence)}{more})"


class Graph:
    """Entities, ``type:name``, and their edges. The order of neighbours does not depend on that of insertion."""

    def __init__(self, edges: Iterable[Edge], entities: Iterable[str] = ()) -> None:
        self._edges = sorted(edges, key=lambda edge: edge[:3])
        self._of: dict[str, list[Edge]] = {entity: [] for entity in entities}
        for edge in self._edges:
            self._of.setdefault(edge.source, []).append(edge)
            self._of.setdefault(edge.target, []).append(edge)
        self._ordered: dict[str, list[Edge]] = {}
        self._words: dict[str, list[str]] = defaultdict(list)
        self._length: dict[str, int] = {}
        for entity in sorted(self._of):
            names = frozenset(words(name_of(entity))) if type_of(entity) not in (DECISION, PERSON) else frozenset()
            self._length[entity] = len(names)
            for word in names:
                self._words[word].append(entity)

    def __contains__(self, entity: object) -> bool:
        return entity in self._of

    def __iter__(self) -> Iterator[str]:
        """Yield the entities in their order."""
        return iter(sorted(self._of))

    @property
    def edges(self) -> list[Edge]:
        """All edges, by source, type and target."""
        return self._edges

    def of(self, entity: str) -> list[Edge]:
        """Return the edges of an entity, those to rare entities first; empty for an unknown one.

        An entity with few edges is more informative than one that has many.
        """
        if entity not in self._ordered:
            self._ordered[entity] = sorted(self._of.get(entity, ()), key=lambda edge: self._rank(edge, entity))
        return self._ordered[entity]

    def _rank(self, edge: Edge, entity: str) -> tuple[int, int, str, Edge]:
        other = edge.other(entity)
        return EDGES.index(edge.type), len(self._of[other]), other, edge

    def named(self, text: str) -> list[str]:
        """Return the entities with all words of their name in a text: the longest name first, then the rarest.

        Decisions and persons have no name to find.
        """
        found: dict[str, int] = defaultdict(int)
        for word in dict.fromkeys(words(text)):
            for entity in self._words.get(word, ()):
                found[entity] += 1
        complete = [entity for entity, count in found.items() if count == self._length[entity]]
        return sorted(complete, key=lambda entity: (-self._length[entity], len(self._of[entity]), entity))


def type_of(entity: str) -> str:
    """Return the type of an entity's reference."""
    return entity.partition(":")[0]


def name_of(entity: str) -> str:
    """Return the name in an entity's reference."""
    return entity.partition(":")[2]
