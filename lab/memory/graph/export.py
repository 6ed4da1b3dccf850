"""A graph as a file: derived, portable JSON of entities and edges (GR-7)."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import dump_json, read_json
from lab.base.shape import expect, field
from lab.memory.facts import store
from lab.memory.facts.sources import Sources
from lab.memory.facts.view import EXCLUDED, View, current
from lab.memory.graph.build import build, ledger_texts
from lab.memory.graph.model import EDGES, Edge, Graph, type_of
from lab.memory.ledger.times import stamp

SCHEMA = "recall-lab.graph.v0"


class Made(NamedTuple):
    """A graph, how many facts were left out by reason (TF-9), and whether sources in a ledger were not looked up."""

    graph: Graph
    left_out: Counter[str]
    unchecked: bool


def graph_of(ledger: Path | None, facts: Path | None, now: datetime, root: Path = Path()) -> Made:
    """Return the graph of a ledger and of the facts that hold ``now``; either may be missing (None).

    A fact whose sources changed, are missing or quarantined is left out. ``root`` is the folder that relative paths of
    sources start from.
    """
    texts = ledger_texts(ledger) if ledger is not None else ()
    known = list(View(store.read(facts).records)) if facts is not None else []
    judged = current(known, stamp(now), Sources(ledger, root))
    holding = [fact for fact, _ in judged.facts]
    left_out = Counter(one.reason for one in judged.excluded if one.reason in EXCLUDED.values())
    return Made(build(texts, holding), left_out, ledger is None and any(fact.needs_ledger for fact in holding))


def graph_bytes(graph: Graph) -> bytes:
    """Return a graph as JSON: equal graphs give equal bytes."""
    entities = [{"ref": entity, "type": type_of(entity), "edges": len(graph.of(entity))} for entity in graph]
    return dump_json({"schema": SCHEMA, "entities": entities, "edges": [edge_json(edge) for edge in graph.edges]})


def require_replaceable(path: Path) -> None:
    """Raise :class:`UnusableInput` for a file that an export must not replace: any but an empty one or a graph."""
    if path.exists() and path.stat().st_size:
        try:
            read_graph(path)
        except UnusableInput:
            raise UnusableInput(f"{path}: is no graph, so it is not replaced; give the export another name") from None


def edge_json(edge: Edge) -> dict[str, Any]:
    """Return an edge as JSON."""
    return {**edge._asdict(), "evidence": list(edge.evidence)}


def read_graph(path: Path) -> Graph:
    """Return the graph in a file. Raises :class:`UnusableInput` with the place of what is wrong."""
    raw = expect(read_json(path), dict, str(path))
    if raw.get("schema") != SCHEMA:
        raise UnusableInput(f"{path}: is no graph of schema {SCHEMA}; make one with lab memory graph export")
    entities = [field(one, "ref", str, f"{path}: entities") for one in field(raw, "entities", list, str(path))]
    rows = enumerate(field(raw, "edges", list, str(path)))
    return Graph([_edge(row, f"{path}: edges[{number}]") for number, row in rows], entities)


def _edge(raw: Any, at: str) -> Edge:
    evidence = tuple(expect(one, str, f"{at}: evidence") for one in field(raw, "evidence", list, at))
    source, kind, target = (field(raw, name, str, at) for name in ("source", "type", "target"))
    edge = Edge(source, kind, target, evidence, field(raw, "times", int, at), field(raw, "first_ms", int, at))
    if edge.type not in EDGES or not evidence:
        raise UnusableInput(f"{at}: an edge has a type of {', '.join(EDGES)} and evidence; export the graph again")
    return edge
