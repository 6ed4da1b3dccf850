"""The check of the recall tool: what an agent gets when it asks for memories itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.conformance.e2e import CLOSE, Table, plugin_config
from lab.conformance.records import SKIPPED, Folder, Outcome, Record, VectorFile, expected, judge
from lab.conformance.turns import table_of
from lab.conformance.values import Difference, difference
from lab.errors import UnusableInput
from lab.systems.openclaw.tools.recall import DEFAULT_LIMIT, Recalled, clamp_limit, memory_recall
from lab.systems.openclaw.upstream.js import round6
from lab.utf16 import js_length, js_utf8

# A text longer than this stands in its record as a digest.
LONGEST = 1200
_OF_THE_TABLE = ("dbPath", "tableName", "model")


def recall_tool(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Calls of ``memory_recall``, each on the recorded corpus."""
    try:
        table = table_of(folder)
    except UnusableInput as error:
        yield from (Outcome(record.id, record.line, SKIPPED, str(error)) for record in file.records)
        return
    for record in file.records:
        yield judge(record, partial(_compare, table, record))


def _compare(table: Table, record: Record) -> Difference | None:
    given = record.value["input"]
    asked = given["params"]
    dark = None if given.get("embeddings", True) else "provider_unavailable"
    query = asked.get("query", "")
    found = memory_recall(
        query,
        plugin_config(given["config"]),
        table.memories(query, None, no_vector=dark, writes=False),
        limit=clamp_limit(asked["limit"]) if "limit" in asked else DEFAULT_LIMIT,
        scope=asked.get("scope"),
    )
    return difference(expected(record), _shown(found, expected(record)), tolerance=CLOSE)


def _shown(found: Recalled, wanted: dict[str, Any]) -> dict[str, Any]:
    """An answer as its record shows it; the names of table and model are the record's own."""
    text: Any = found.text
    if js_length(found.text) > LONGEST:
        digest = hashlib.sha1(js_utf8(found.text), usedforsecurity=False).hexdigest()
        text = {"sha1": digest, "length": js_length(found.text)}
    named = {name: wanted["receipt"][name] for name in _OF_THE_TABLE if name in wanted["receipt"]}
    return {
        "text": text,
        "count": len(found.hits),
        "memories": [[row.id, round6(one.candidate.score), one.candidate.distance] for one, row in found.hits],
        "receipt": named | found.receipt,
        "logs": list(found.log),
    }
