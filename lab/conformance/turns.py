"""The checks of the end-to-end files: whole turns, raw searches, and the hook that fires twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.conformance.e2e import CLOSE, Table, answer, corpus_rows, plugin_config, run_turn, searches_of
from lab.conformance.records import FAILED, SKIPPED, Folder, Outcome, Record, Skip, VectorFile, expected, judge, said
from lab.conformance.values import Difference, difference
from lab.engine.memory import Row
from lab.engine.recall.hook import HookDedupe
from lab.engine.settings import EngineConfig
from lab.engine.store.contract import Filter
from lab.errors import UnusableInput

CORPUS, SEARCHES = "e2e_corpus.jsonl", "e2e_searches.jsonl"


def table_of(folder: Folder) -> Table:
    """The recorded corpus, with the searches that were recorded over it."""
    recorded = folder.beside(SEARCHES)
    rows = corpus_rows(record.value for record in folder.setup(CORPUS).records)
    return Table(rows, searches_of(record.value for record in recorded.records) if recorded else {})


def turns(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Turn by turn, in order, on one table: what is injected, the receipt, the log, and what was searched.

    A file's configuration stands in its first line, or in every record.
    """
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    config: EngineConfig | None = None
    embeddings = True
    for record in file.records:
        given = record.value.get("input")
        if given is None and "config" in record.value:
            embeddings = bool(record.value.get("embeddings", True))
            try:
                config = plugin_config(record.value["config"])
            except UnusableInput as error:
                yield Outcome(record.id, record.line, FAILED, said(error))
        elif given is None:
            yield judge(record, lambda record=record: difference(expected(record), _left(table)))
        else:
            yield judge(record, lambda record=record: _compare_turn(table, config, record, embeddings=embeddings))


def searches(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """The raw lanes of the public plugin's LanceDB, against those of the exact store."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    for record in file.records:
        yield judge(record, lambda record=record: _compare_search(table, folder.prompts, record))


def hook_dedupe(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Firings of the hook, in order, under the default configuration."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    config, dedupe = plugin_config({}), HookDedupe()
    for record in file.records:
        yield judge(record, lambda record=record: difference(expected(record), _fire(table, config, dedupe, record)))


def _compare_turn(table: Table, config: EngineConfig | None, record: Record, *, embeddings: bool) -> Difference | None:
    given = record.value["input"]
    if "config" in given:
        config = plugin_config(given["config"])
    if config is None:
        raise UnusableInput("no configuration: neither in the file's first line nor in the record")
    before = len(table.written)
    turn = run_turn(table, config, given, embeddings=embeddings)
    found = answer(turn) | {"upserts": [_shown_row(row) for row in table.written[before:]]}
    wanted = expected(record)
    # A record shows what its recorder looked at; the plugin's other answers always stand in it.
    for key in ("searched", "upserts"):
        if key not in wanted:
            del found[key]
    return difference(wanted, found, tolerance=CLOSE)


def _compare_search(table: Table, prompts: dict[str, str], record: Record) -> Difference | None:
    value = record.value
    if value["pid"] not in prompts:
        raise Skip("no file here says what the prompt was")
    view = table.memories(prompts[value["pid"]], None, no_vector=None, writes=False).view
    lanes = view.search(Filter(value["scope"], tuple(value["labels"])), value["limit"])
    rows = table.store.rows
    found: dict[str, Any] = {"fts": [[rows[hit.row].id, hit.score] for hit in lanes.fts]}
    wanted: dict[str, Any] = {"fts": [] if value["fts"] == "error" else value["fts"]}
    if value["vec"] is not None:
        found["vec"] = [[rows[hit.row].id, hit.distance] for hit in lanes.vec]
        wanted["vec"] = value["vec"]
    return difference(wanted, found, path="search", tolerance=CLOSE)


def _fire(table: Table, config: EngineConfig, dedupe: HookDedupe, record: Record) -> dict[str, bool]:
    given = record.value["input"]
    prompt, at = given["prompt"], given["atMs"]
    if dedupe.is_repeat(given["sessionKey"], given["messageCount"], prompt, at):
        return {"ran": False, "injected": False, "dedupeLogged": True}
    turn = run_turn(table, config, {"prompt": prompt, "nowMs": at}, embeddings=True)
    return {"ran": True, "injected": turn.packed is not None, "dedupeLogged": False}


def _left(table: Table) -> dict[str, Any]:
    """What a sequence leaves: how many rows there are, and those that the engine itself wrote, as they are stored."""
    written = {row.id for row in table.written}
    kept = [row for number, row in enumerate(table.store.rows) if number not in table.gone]
    return {"count": len(kept), "workingSetRows": [_shown_row(row) for row in kept if row.id in written]}


def _shown_row(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "text": row.text,
        "createdAt": row.created_at,
        "category": row.category,
        "importance": row.importance,
        "importance_label": row.importance_label,
        "scope": row.scope,
        "trust_tier": row.trust_tier,
    }


def _skipped(file: VectorFile, why: str) -> Iterator[Outcome]:
    for record in file.records:
        yield Outcome(record.id, record.line, SKIPPED, why)
