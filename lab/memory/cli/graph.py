"""``lab memory graph``: show how projects, tools, decisions and concepts are related, with evidence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lab.base.errors import CheckFailed, UnusableInput
from lab.base.files import sha256_bytes, write_atomically
from lab.base.formatting import counted
from lab.cli.options import Write
from lab.cli.output import announce_folded, emit_folded, emit_hanging
from lab.cli.results import Result, changed, command_name
from lab.memory.cli.facts import HERE, folder
from lab.memory.graph.build import Graph, edge_json, graph_bytes, graph_of, read_graph, require_replaceable
from lab.memory.graph.search import Reached, described, neighbourhood, shortest_path, start_of, starts_of

Ledger = Annotated[Path | None, typer.Option(help="A ledger. The graph is made from its observations.")]
Facts = Annotated[Path | None, typer.Option(help="A file of assertions. Only facts that hold now are used.")]
Root = Annotated[
    Path,
    typer.Option(
        help="The base folder of relative source paths in --facts.", callback=lambda root: folder(root, "--root")
    ),
]
Exported = Annotated[Path | None, typer.Option("--graph", metavar="FILE", help="Read an exported graph instead.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A name, or a reference such as tool:lancedb.")]


@dataclass(frozen=True, slots=True)
class Made:
    """What a graph is made from."""

    ledger: Ledger = None
    facts: Facts = None
    root: Root = HERE

    def graph(self) -> Graph:
        """Return the graph of a ledger and facts; say which facts are left out, or not checked."""
        if self.ledger is None and self.facts is None:
            raise UnusableInput("give what to relate: --ledger, --facts or both")
        made = graph_of(self.ledger, self.facts, datetime.now(UTC), self.root)
        if made.left_out:
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(made.left_out.items()))
            announce_folded(f"note: facts were left out: {reasons}; lab memory facts lint says more.")
        if made.unchecked:
            announce_folded("note: sources of facts in a ledger were not checked; give --ledger.")
        return made.graph


@dataclass(frozen=True, slots=True)
class Given(Made):
    """What a graph is made from, or read from."""

    exported: Exported = None

    def graph(self) -> Graph:
        """Return the graph of an exported file, or else that of a ledger and facts."""
        if self.exported is None:
            return Made.graph(self)
        if self.ledger is not None or self.facts is not None:
            raise UnusableInput("--graph is a graph already; leave out --ledger and --facts")
        return read_graph(self.exported)


def show(
    name: Name,
    given: Given,
    depth: Annotated[int, typer.Option(min=1, max=6, help="Maximum number of edges from NAME.")] = 2,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of entities.")] = 20,
) -> Result:
    """Show the entities around one, nearest first, with evidence.

    NAME may be a text: the search starts from all entities that it names.
    """
    graph = given.graph()
    starts = _named(graph, name)
    found = neighbourhood(graph, starts, depth=depth, limit=limit)

    def text(found: list[Reached]) -> None:
        for one in found:
            emit_hanging(described(start_of(one), one.path))
        emit_folded(f"{counted(len(found), 'entity')} around {', '.join(starts)}.")

    def json(found: list[Reached]) -> dict[str, Any]:
        near = [{"entity": one.entity, "path": [edge_json(edge) for edge in one.path]} for one in found]
        return {"starts": starts, "near": near}

    return Result(found, text, json)


def path(
    source: Annotated[str, typer.Argument(metavar="FROM", help="A name or a reference.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="A name or a reference.")],
    given: Given,
) -> Result:
    """Show a shortest path between two entities.

    Each edge lists its evidence. The exit code is 1 if there is no path.
    """
    graph = given.graph()
    start, end = _named(graph, source)[0], _named(graph, target)[0]
    edges = shortest_path(graph, start, end)
    found = {"from": start, "to": end, "path": None if edges is None else [edge_json(edge) for edge in edges]}
    if edges is None:
        return Result(found, lambda _: None, error=CheckFailed(f"no path from {start} to {end}"))

    def text(_: object) -> None:
        emit_hanging(described(start, edges))
        for edge in edges:
            emit_hanging(f"  {edge}")

    return Result(found, text)


def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSON file to write.")],
    made: Made,
    write: Write = False,
) -> Result:
    """Write the graph as JSON: entities, and edges with evidence.

    The same ledger and facts give the same bytes. Only a graph is replaced, no other file.
    """
    require_replaceable(out)
    graph = made.graph()
    data = graph_bytes(graph)
    if write:
        write_atomically(out, data)
    entities = list(graph)
    receipt = {"out": str(out), "entities": len(entities), "edges": len(graph.edges), "bytes": len(data)}

    def text(found: dict[str, Any]) -> None:
        emit_folded(
            f"{counted(found['entities'], 'entity')}, {counted(found['edges'], 'edge')}, "
            f"{counted(found['bytes'], 'byte')} {'written to' if write else 'for'} {out}."
        )

    return changed("memory graph export", out, {**receipt, "sha256": sha256_bytes(data)}, text, write=write)


def _named(graph: Graph, name: str) -> list[str]:
    """Return the entities that a name or reference names; raise :class:`UnusableInput` if there is none."""
    found = [name] if name in graph else starts_of(graph, name)
    if not found:
        raise UnusableInput(f"the graph has no entity {name!r}; lab memory graph export lists all")
    return found


graph = typer.Typer(
    no_args_is_help=True,
    help="Show how projects, tools, decisions and concepts are related. Rules make the graph from a ledger and "
    "facts; each relation names its evidence. Persons appear only as digests.",
)
for command in (show, path, export):
    graph.command(command_name(command))(command)
