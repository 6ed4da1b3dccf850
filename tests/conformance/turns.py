"""The checks of the end-to-end files: complete turns, raw searches, and repeated hook calls."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.base.errors import UnusableInput
from lab.retrieval.collation import id_order
from lab.retrieval.contract import Filter, Row
from lab.systems.openclaw.config.settings import EngineConfig
from tests.conformance.e2e import CLOSE, Table, answer, corpus_rows, plugin_config, run_turn, searches_of
from tests.conformance.plugin_hook import HookDedupe
from tests.conformance.record_files import (
    FAILED,
    SKIPPED,
    Folder,
    Outcome,
    Record,
    Skip,
    VectorFile,
    describe_error,
    expected,
    judge,
)
from tests.conformance.scripted import shown_row
from tests.conformance.values import Difference, difference

CORPUS, SEARCHES = "e2e_corpus.jsonl", "e2e_searches.jsonl"
_OF_A_SEARCH = {"pid", "scope", "labels", "limit", "fts", "vec"}


def corpus_of(folder: Folder) -> list[Row]:
    """Return the rows of the recorded corpus.

    Raises :class:`UnusableInput` if the corpus file is missing, and ValueError with file and line for an invalid row.
    """
    corpus = folder.setup(CORPUS)
    if corpus.broken:
        raise ValueError(str(corpus.broken[0].why))
    rows = []
    for record in corpus.records:
        try:
            rows += corpus_rows([record.value])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{CORPUS}:{record.line}: not a stored row: {describe_error(error)}") from None
    return rows


def table_of(folder: Folder) -> Table:
    """Return the recorded corpus with its recorded searches.

    Incomplete search records are ignored here; the check of their file reports them.
    """
    recorded = folder.beside(SEARCHES)
    complete = [record.value for record in recorded.records if record.value.keys() >= _OF_A_SEARCH] if recorded else []
    return Table(corpus_of(folder), searches_of(search for search in complete if search["labels"]))


def turns(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Check turns in order on one table: the injected block, the receipt, the log and the searches.

    The configuration is in the file's first line or in every record.
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
                yield Outcome(record.id, record.line, FAILED, describe_error(error))
        elif given is None:
            yield judge(record, partial(_compare_final_rows, table, record))
        else:
            yield judge(record, partial(_compare_turn, table, config, record, embeddings=embeddings))


def searches(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Compare the raw lanes of the public plugin's LanceDB with those of the exact store."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from _skipped(file, str(error))
        return
    for record in file.records:
        yield judge(record, partial(_compare_search, table, folder.prompts, record))


def hook_dedupe(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Check hook calls in order under the default configuration."""
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
    outcome = answer(turn) | {"upserts": [shown_row(row) for row in table.written[before:]]}
    expected_output = expected(record)
    if not {"prependContext", "receipt"} & expected_output.keys():
        raise Skip("the record has neither an injected block nor a receipt")
    # Only the recorded fields are compared.
    return difference(
        expected_output, {key: value for key, value in outcome.items() if key in expected_output}, tolerance=CLOSE
    )


def _compare_search(table: Table, prompts: dict[str, str], record: Record) -> Difference | None:
    value = record.value
    if value["pid"] not in prompts:
        raise Skip("no file of the folder contains the prompt")
    view = table.memories(prompts[value["pid"]], None, no_vector=None, writes=False).view
    lanes = view.search(Filter(value["scope"], tuple(value["labels"])), value["limit"])
    rows = table.store.rows
    lanes_found: dict[str, Any] = {"fts": [[rows[hit.row].id, hit.score] for hit in lanes.fts]}
    expected_lanes: dict[str, Any] = {"fts": [] if value["fts"] == "error" else value["fts"]}
    if value["vec"] is not None:
        lanes_found["vec"] = [[rows[hit.row].id, hit.distance] for hit in lanes.vec]
        expected_lanes["vec"] = value["vec"]
    return difference(expected_lanes, lanes_found, path="search", tolerance=CLOSE)


def _compare_firing(table: Table, config: EngineConfig, dedupe: HookDedupe, record: Record) -> Difference | None:
    given = record.value["input"]
    prompt, at = given["prompt"], given["atMs"]
    if dedupe.is_repeat(given["sessionKey"], given["messageCount"], prompt, at):
        return difference(expected(record), {"ran": False, "injected": False, "dedupeLogged": True})
    turn = run_turn(table, config, {"prompt": prompt, "nowMs": at}, embeddings=True)
    return difference(expected(record), {"ran": True, "injected": turn.packed is not None, "dedupeLogged": False})


def _compare_final_rows(table: Table, record: Record) -> Difference | None:
    """Compare the final table: the number of rows, and the rows that the engine wrote, newest first."""
    kept = [row for number, row in enumerate(table.store.rows) if number not in table.removed]
    written = {row.id for row in table.written}
    engine_rows = sorted(
        (row for row in kept if row.id in written), key=lambda row: (-row.created_at, id_order(row.id))
    )
    return difference(expected(record), {"count": len(kept), "workingSetRows": [shown_row(row) for row in engine_rows]})


def _skipped(file: VectorFile, why: str) -> Iterator[Outcome]:
    for record in file.records:
        yield Outcome(record.id, record.line, SKIPPED, why)
