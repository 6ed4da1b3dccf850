"""The tools that ingest and search documents by hand."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from lab.memory.tools.context import ToolContext
from lab.memory.tools.docs_tools import memory_docs_ingest, memory_docs_search
from lab.systems.openclaw.config.settings import DocsSettings, EngineConfig
from lab.systems.openclaw.docs.index import DocsIndex
from lab.systems.openclaw.docs.lane import DocsLane
from tests.conformance.memory_table import InMemoryTable


def context(docs: DocsSettings, **config: Any) -> ToolContext:
    """Return a context with settings of the documents lane; the clock stands still."""
    given = EngineConfig(docs=docs, **config)
    return ToolContext(InMemoryTable(), given, lambda: 5, lambda: "", embed=None, dimension=3)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[DocsIndex]:
    """Return an empty index."""
    index = DocsIndex(tmp_path / "docs.sqlite", None, "")
    yield index
    index.close()


@pytest.fixture
def docs(handbook: Path) -> DocsSettings:
    """Return the settings of a lane over the handbook."""
    return DocsSettings(enabled=True, source_roots=(str(handbook),), scope_mapping_strategy="none")


def test_docs_ingest_reads_the_configured_roots_then_search_cites_them(docs: DocsSettings, index: DocsIndex) -> None:
    ingested = memory_docs_ingest(context(docs), index)
    assert (ingested.details["ok"], ingested.text) == (True, "Docs ingested: files=4, chunks written=7.")
    assert ingested.log[0].startswith('openclaw-mem-engine:docsColdLane.ingest {"skipped":false')
    again = memory_docs_ingest(context(docs), index).details["receipt"]
    assert (again["chunks_inserted"], again["chunks_unchanged"]) == (0, 7)
    found = memory_docs_search(context(docs), DocsLane(docs, index), "gateway listens", limit=1)
    (doc,) = found.details["docs"]
    assert doc["recordRef"] == "doc:handbook:gateway/decisions/2026-03-02-port.md#port:001"
    assert found.text == f"Found 1 docs snippets:\n\n1. [decision] {doc['text']} ({doc['recordRef']})"
    assert (found.details["receipt"]["trigger"], found.details["receipt"]["requested"]) == ("manual", 1)


@pytest.mark.parametrize(("limit", "requested"), [(None, 2), (0, 2), (99, 2), ("1", 1), ("x", 2), (1.9, 1)])
def test_docs_search_limit_is_at_most_max_items(
    docs: DocsSettings, index: DocsIndex, limit: object, requested: int
) -> None:
    found = memory_docs_search(context(docs), DocsLane(docs, index), "gateway", limit=limit)
    assert (found.details["receipt"]["requested"], found.text) == (requested, "No docs cold-lane matches found.")


def test_docs_search_keeps_to_the_scope_of_the_call(docs: DocsSettings, index: DocsIndex) -> None:
    scoped = replace(docs, scope_mapping_strategy="path_prefix")
    memory_docs_ingest(context(scoped), index)
    lane = DocsLane(scoped, index)
    found = memory_docs_search(context(scoped), lane, "port", scope=" Mobile ")
    assert {doc["path"] for doc in found.details["docs"]} == {"mobile/specs/login.md"}
    given = memory_docs_search(context(scoped), lane, "port", scope="gateway")
    assert {doc["path"] for doc in given.details["docs"]} == {"gateway/decisions/2026-03-02-port.md"}


def test_docs_search_blank_query_or_broken_index_is_an_error_not_an_exception(docs: DocsSettings) -> None:
    assert memory_docs_search(context(docs), DocsLane(docs, None), " ").error == "empty_query"
    broken = memory_docs_search(context(docs), DocsLane(docs, None), "port")
    assert (broken.error, broken.text) == (
        "docs_search_failed",
        "No docs cold-lane matches found (docs_search_failed).",
    )


def test_docs_tools_of_a_lane_that_is_off_do_nothing(docs: DocsSettings, index: DocsIndex) -> None:
    off = replace(docs, enabled=False)
    assert memory_docs_ingest(context(off), index).error == "docs_cold_lane_disabled"
    assert memory_docs_search(context(off), DocsLane(off, index), "port").error == "docs_cold_lane_disabled"


def test_docs_ingest_in_read_only_mode_is_refused(docs: DocsSettings, index: DocsIndex) -> None:
    refused = memory_docs_ingest(context(docs, read_only=True), index)
    assert (refused.error, "receipt" in refused.details) == ("readonly_mode", False)
    assert refused.text == "Refusing to ingest docs: openclaw-mem-engine is running in read-only mode."


def test_docs_ingest_roots_of_a_call_must_be_configured(docs: DocsSettings, index: DocsIndex, tmp_path: Path) -> None:
    given = {"sourceRoots": [str(tmp_path / "other"), 5], "sourceGlobs": [""]}
    result = memory_docs_ingest(context(docs), index, given)
    receipt = result.details["receipt"]
    assert result.text == "Docs ingest skipped (source_roots_not_allowlisted)."
    assert (receipt["invalidRoots"], receipt["droppedSourceRoots"]) == ([str(tmp_path / "other")], 1)
    assert (result.details["ok"], receipt["droppedSourceGlobs"]) == (False, 1)


def test_docs_ingest_failure_of_the_index_is_reported(docs: DocsSettings) -> None:
    class Broken:
        def ingest(self, *_: Any, **__: Any) -> Any:
            raise sqlite3.OperationalError("disk image is malformed")

    result = memory_docs_ingest(context(docs), cast("DocsIndex", Broken()))
    assert (result.error, result.details["ok"]) == ("docs_ingest_failed", False)
    assert result.text == "Docs ingest failed (docs_ingest_failed: OperationalError)."


def test_docs_ingest_embedder_that_fails_is_a_warning(docs: DocsSettings, tmp_path: Path) -> None:
    def fail(texts: object) -> Any:
        raise OSError("no route to host")

    index = DocsIndex(tmp_path / "docs.sqlite", fail, "model")
    result = memory_docs_ingest(context(docs), index)
    index.close()
    assert result.text.endswith("⚠️ embedding failed: OSError")
    assert result.details["receipt"]["chunks_inserted"] == 7
