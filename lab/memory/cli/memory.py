"""``lab memory``: store, recall, forget, list and count the memories in a LanceDB folder of the plugin."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import typer

from lab.base.errors import UnusableInput
from lab.cli.output import emit, emit_folded, emit_table
from lab.cli.results import Result
from lab.embedding.embedder import QUERY
from lab.memory.cli import memory_files
from lab.memory.cli.memory_options import (
    Category,
    DocsIndexFile,
    Folder,
    Limit,
    OnlyCategory,
    OnlyScope,
    Reading,
    ScopeName,
    Searching,
    Storing,
    VectorLength,
    finish,
    opened,
    plain,
    text_or_stdin,
    warn,
    with_places,
)
from lab.memory.table.lance_lock import gateway_using, holder
from lab.memory.tools.listing import memory_list, memory_stats
from lab.memory.tools.store import memory_forget, memory_store
from lab.systems.openclaw.recall.receipt import NAME
from lab.systems.openclaw.recall_tool import Recalled, agent_recall, clamp_limit
from lab.systems.openclaw.table.admin import listed, preview


def store(
    folder: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text to remember, or - to read it from stdin.")],
    importance: Annotated[
        float | None, typer.Option(min=0, max=1, help=".8 or more is must_remember, .5 or more nice_to_have.")
    ] = None,
    category: Category = "other",
    scope: ScopeName = None,
    dimension: VectorLength = None,
    *,
    options: Storing,
) -> Result:
    """Store one memory.

    A folder without a table gets one.

    With --write and exit code 0 the memory is on disk and survives a kill of this process.
    Exit code 1: the memory was refused, by the preflight or as a secret.
    """
    text = text_or_stdin(text)
    with opened(folder, "store", options, dimension=dimension, scope=scope, create=True) as session:
        result = memory_store(session.context, text, importance=importance, category=category, scope=scope)
    return finish(result, session, change="memory store", write=options.write)


def recall(
    folder: Folder,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for, or - to read it from stdin.")],
    limit: Annotated[int, typer.Option(min=1, max=50, help="Maximum number of memories.")] = 5,
    scope: ScopeName = None,
    *,
    options: Searching,
    docs: DocsIndexFile = None,
) -> Result:
    """Search memories as the agent's tool does.

    If there are too few, documents are added from the index of docs-ingest.
    """
    query = text_or_stdin(query)
    with (
        opened(folder, "recall", options, role=QUERY, scope=scope) as session,
        memory_files.docs_lane(session, folder, docs) as lane,
        session.memories(query, lane) as memories,
    ):
        started = session.context.now_ms()
        found = agent_recall(query, session.context.config, memories, limit=clamp_limit(limit), scope=scope)
        timed = session.context.timed(started) | {"model": session.context.model}
        found = replace(found, receipt=found.receipt | timed)
    # The receipt has what the line of the documents says.
    warn(*session.notes, *(line for line in found.log if not line.startswith(f"{NAME}:docsColdLane")))

    def show(found: Recalled) -> None:
        lines = [f"[{row.category}] {preview(row.text)}" for _, row in found.hits]
        emit(with_places(found.text, lines, found.details["memories"]))
        if len(found.hits) > 1:
            emit_folded("Tiers go first: must_remember and nice_to_have, then unknown, then ignore; then the score.")

    return Result(found, show, lambda found: plain(found.details))


def forget(
    folder: Folder,
    memory_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="Delete the memory with this id.")] = None,
    query: Annotated[str | None, typer.Option(help="List the five nearest memories; delete nothing.")] = None,
    *,
    options: Storing,
) -> Result:
    """Delete one memory by its id, or list candidates for a query.

    Older versions of the table keep the text for seven days: to remove it from
    the disk, run lab memory compact --keep 0 --write.
    Exit code 1: there is no memory with this id.
    """
    if (memory_id is None) == (query is None):
        raise UnusableInput("give either --id or --query")
    if query is not None and options.embedder == "none":
        raise UnusableInput("--query needs an embedder: give --embedder, the model that made the vectors, or use --id")
    only_read = Searching(options.config, options.profile, options.embedder)
    how = replace(options, embedder="none") if query is None else only_read
    with opened(folder, "forget", how, role=QUERY) as session:
        result = memory_forget(session.context, memory_id=memory_id, query=query)
    if session.context.upstream:
        result = replace(result, text=result.text + ("\n\nHere memoryId is --id." if query is not None else ""))
    else:
        result = replace(result, text=result.text.replace("Re-run with memoryId", "Run again with --id"))
    return finish(result, session, change="memory forget" if query is None else "", write=options.write)


def list_(
    folder: Folder,
    scope: OnlyScope = None,
    category: OnlyCategory = None,
    limit: Limit = 50,
    *,
    options: Reading,
) -> Result:
    """List memories, newest first, with secrets replaced."""
    with opened(folder, "list", options, scope=scope) as session:
        result = memory_list(session.context, scope=scope, category=category, limit=limit)
    items = result.details["items"]
    result = replace(result, text=with_places(result.text, [*map(listed, items)], items))
    return finish(result, session)


def stats(folder: Folder, scope: OnlyScope = None, category: OnlyCategory = None, *, options: Reading) -> Result:
    """Count memories by scope and category; describe the table."""
    with opened(folder, "stats", options, scope=scope) as session:
        details = memory_stats(session.context, scope=scope, category=category).details
        table = session.require_table().describe() | {"gateway": gateway_using(folder), "writer": holder(folder)}
    warn(*session.notes)
    return Result(details | {"table": table}, _show_stats, plain)


def _show_stats(details: dict[str, Any]) -> None:
    counts, table = details["stats"], details["table"]
    rows: list[tuple[str, object]] = [("memories", counts["count"])]
    absent = table["missingPluginColumns"]
    by_default = ", for want of a column" if "scope" in absent else ""
    rows += [(f"scope {name}{by_default}", count) for name, count in counts["byScope"].items()]
    rows += [(f"category {name}", count) for name, count in counts["byCategory"].items()]
    rows += [(f"characters, {name.removesuffix('Chars')}", value) for name, value in counts["size"].items()]
    rows += [(f"age in days, {name}", value) for name, value in counts["ageDays"].items()]
    rows += [(name, table[name]) for name in ("dimension", "version", "fragments", "bytes")]
    rows.append(("missing columns", ", ".join(table["missingColumns"]) or "none"))
    if absent:
        rows.append(("missing plugin columns", ", ".join(absent)))
    rows.append(("running gateway", table["gateway"] or "none detected"))
    rows.append(("writer", table["writer"] or "none"))
    emit_table(("", "value"), rows, left=2)
    if absent:
        emit_folded("The table lacks columns of the plugin, so it is only read; lab memory backfill adds them.")
