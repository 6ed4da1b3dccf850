"""The check of the recall tool, which agents call to search memories."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.utf16 import js_length, js_utf8
from lab.systems.openclaw.js import round6
from lab.systems.openclaw.recall_tool import DEFAULT_LIMIT, Recalled, clamp_limit, memory_recall
from tests.conformance.e2e import CLOSE, Table, plugin_config
from tests.conformance.record_files import SKIPPED, Folder, Outcome, Record, VectorFile, expected, judge
from tests.conformance.turns import table_of
from tests.conformance.values import Difference, difference

# Records replace a longer text, in UTF-16 units, by its SHA-1 and length.
LONGEST = 1200
_OF_THE_TABLE = ("dbPath", "tableName", "model")


def recall_tool(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Check calls of ``memory_recall`` on the recorded corpus."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from (Outcome(record.id, record.line, SKIPPED, str(error)) for record in file.records)
        return
    for record in file.records:
        yield judge(record, partial(_compare, table, record))


def _compare(table: Table, record: Record) -> Difference | None:
    given = record.value["input"]
    params = given["params"]
    no_vector_reason = None if given.get("embeddings", True) else "provider_unavailable"
    query = params.get("query", "")
    recalled = memory_recall(
        query,
        plugin_config(given["config"]),
        table.memories(query, None, no_vector=no_vector_reason, writes=False),
        limit=clamp_limit(params["limit"]) if "limit" in params else DEFAULT_LIMIT,
        scope=params.get("scope"),
    )
    return difference(expected(record), _shown(recalled, expected(record)), tolerance=CLOSE)


def _shown(recalled: Recalled, expected_output: dict[str, Any]) -> dict[str, Any]:
    """Return a result in the form of its record; the names of table and model are copied from the record."""
    text: Any = recalled.text
    if js_length(recalled.text) > LONGEST:
        digest = hashlib.sha1(js_utf8(recalled.text), usedforsecurity=False).hexdigest()
        text = {"sha1": digest, "length": js_length(recalled.text)}
    named = {name: expected_output["receipt"][name] for name in _OF_THE_TABLE if name in expected_output["receipt"]}
    return {
        "text": text,
        "count": len(recalled.hits),
        "memories": [[row.id, round6(hit.candidate.score), hit.candidate.distance] for hit, row in recalled.hits],
        "receipt": named | recalled.receipt,
        "logs": list(recalled.log),
    }
