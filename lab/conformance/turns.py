"""The checks of the end-to-end files: whole turns, raw searches, and the hook that fires twice."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.conformance.e2e import CLOSE, Table, answer, corpus_rows, plugin_config, run_turn, searches_of
from lab.conformance.records import FAILED, SKIPPED, Folder, Outcome, Record, Skip, VectorFile, expected, judge, said
from lab.conformance.scripted import shown_row
from lab.conformance.values import Difference, difference
from lab.errors import UnusableInput
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Filter
from lab.retrieval.row import Row
from lab.systems.openclaw.config.settings import EngineConfig
from lab.systems.openclaw.upstream.hook import HookDedupe

CORPUS, SEARCHES = "e2e_corpus.jsonl", "e2e_searches.jsonl"
_OF_A_SEARCH = {"pid", "scope", "labels", "limit", "fts", "vec"}


def corpus_of(folder: Folder) -> list[Row]:
    """The rows that were recorded over.

    Raises :class:`UnusableInput` where there are none at hand, and ValueError with file and line where one is no row.
    """
    corpus = folder.setup(CORPUS)
    if corpus.broken:
        raise ValueError(str(corpus.broken[0].why))
    rows = []
    for record in corpus.records:
        try:
            rows += corpus_rows([record.value])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{CORPUS}:{record.line}: not a stored row: {said(error)}") from None
    return rows


def table_of(folder: Folder) -> Table:
    """The recorded corpus, with the searches that were recorded over it.

    A record of a search that is not whole is passed over here: its own file says so.
    """
    recorded = folder.beside(SEARCHES)
    found = [record.value for record in recorded.records if record.value.keys() >= _OF_A_SEARCH] if recorded else []
    return Table(corpus_of(folder), searches_of(one for one in found if one["labels"]))


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
            yield judge(record, partial(_compare_left, table, record))
        else:
            yield judge(record, partial(_compare_turn, table, config, record, embeddings=embeddings))


def searches(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """The raw lanes of the public plugin's LanceDB, against those of the exact store."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    for record in file.records:
        yield judge(record, partial(_compare_search, table, folder.prompts, record))


def hook_dedupe(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Firings of the hook, in order, under the default configuration."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    config, dedupe = plugin_config({}), HookDedupe()
    for record in file.records:
        yield judge(record, partial(_compare_firing, table, config, dedupe, record))


def _compare_turn(table: Table, config: EngineConfig | None, record: Record, *, embeddings: bool) -> Difference | None:
    given = record.value["input"]
    if "config" in given:
        config = plugin_config(given["config"])
    if config is None:
        raise UnusableInput("no configuration: neither in the file's first line nor in the record")
    before = len(table.written)
    turn = run_turn(table, config, given, embeddings=embeddings)
    found = answer(turn) | {"upserts": [shown_row(row) for row in table.written[before:]]}
    wanted = expected(record)
    if not {"prependContext", "receipt"} & wanted.keys():
        raise Skip("the record shows neither what was injected nor a receipt")
    # A record shows what its recorder looked at, and that is compared.
    return difference(wanted, {key: value for key, value in found.items() if key in wanted}, tolerance=CLOSE)


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


def _compare_firing(table: Table, config: EngineConfig, dedupe: HookDedupe, record: Record) -> Difference | None:
    given = record.value["input"]
    prompt, at = given["prompt"], given["atMs"]
    if dedupe.is_repeat(given["sessionKey"], given["messageCount"], prompt, at):
        return difference(expected(record), {"ran": False, "injected": False, "dedupeLogged": True})
    turn = run_turn(table, config, {"prompt": prompt, "nowMs": at}, embeddings=True)
    return difference(expected(record), {"ran": True, "injected": turn.packed is not None, "dedupeLogged": False})


def _compare_left(table: Table, record: Record) -> Difference | None:
    """What a sequence leaves: how many rows there are, and those that the engine itself wrote, newest first."""
    kept = [row for number, row in enumerate(table.store.rows) if number not in table.gone]
    written = {row.id for row in table.written}
    own = sorted((row for row in kept if row.id in written), key=lambda row: (-row.created_at, id_order(row.id)))
    return difference(expected(record), {"count": len(kept), "workingSetRows": [shown_row(row) for row in own]})


def _skipped(file: VectorFile, why: str) -> Iterator[Outcome]:
    for record in file.records:
        yield Outcome(record.id, record.line, SKIPPED, why)
