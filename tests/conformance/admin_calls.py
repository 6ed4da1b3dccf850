"""The check of whole calls of the administration tools (E-84 to E-93), on the recorded corpus or a small table."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.utf16 import js_length, js_utf8
from lab.memory.tools.context import NoVector, ToolContext, ToolResult, Vector
from lab.memory.tools.docs_tools import memory_docs_ingest
from lab.memory.tools.importing import memory_import
from lab.memory.tools.listing import memory_export, memory_list, memory_stats
from lab.memory.tools.store import memory_forget, memory_store
from lab.retrieval.contract import Row
from lab.systems.openclaw.memory import importance_score, label_of_score
from lab.systems.openclaw.table.schema import Entry
from tests.conformance.e2e import CLOSE, FAILURES, plugin_config
from tests.conformance.embedding import DIMENSION, embed
from tests.conformance.functions_inject import unknown_function
from tests.conformance.memory_table import InMemoryTable
from tests.conformance.record_files import SKIPPED, Folder, Outcome, Record, VectorFile, expected, judge
from tests.conformance.turns import corpus_of
from tests.conformance.values import Difference, difference

Value = dict[str, Any]
NOW_MS = 1_760_000_000_000
MODEL = "text-embedding-3-small"
GENERATED = "<generated>"


def vectors(texts: Sequence[str]) -> Sequence[Vector]:
    """Return the recorded embedding of texts."""
    return [embed(text).tolist() for text in texts]


def context_of(
    table: InMemoryTable,
    record: Mapping[str, Any],
    new_id: Callable[[], str],
    failure: str | None = None,
) -> ToolContext:
    """Return the context of a recorded call. ``failure`` is the reason why nothing is embedded."""

    def fail(texts: Sequence[str]) -> Sequence[Vector]:
        del texts
        raise NoVector(failure or "")

    return ToolContext(
        table,
        plugin_config(record.get("config", {})),
        lambda: int(record.get("nowMs", NOW_MS)),
        new_id,
        (fail if failure else vectors) if record.get("embeddings", True) else None,
        DIMENSION,
        "<DB>",
        model=MODEL,
    )


def e2e_admin(file: VectorFile, folder: Folder) -> Iterator[Outcome]:
    """Check calls of the administration tools. Calls of a sequence share one table."""
    try:
        corpus = _entries(corpus_of(folder))
    except UnusableInput as error:
        yield from (Outcome(record.id, record.line, SKIPPED, str(error)) for record in file.records)
        return
    sequences: dict[str, InMemoryTable] = {}
    for record in file.records:
        yield judge(record, partial(_compare, record, corpus, sequences))


def _compare(record: Record, corpus: Sequence[Entry], sequences: dict[str, InMemoryTable]) -> Difference | None:
    value = record.value
    table = InMemoryTable(_base(value["base"]) if "base" in value else corpus)
    if "seq" in value:
        table = sequences.setdefault(json.dumps([value["seq"], value.get("base")]), table)
    numbers = count()
    new_id = (lambda: "<id>") if value["tool"] == "memory_store" else (lambda: f"{GENERATED}{next(numbers)}")
    failure = value.get("embeddingFailure")
    reason = FAILURES.get(failure, "provider_unavailable") if failure else None
    context = context_of(table, value, new_id, reason)
    with tempfile.TemporaryDirectory() as folder:
        answer = _answer(context, value, Path(folder))
    required = expected(record)
    shown = {key: _in_form(answer[key], required[key]) for key in required if key in answer}
    mismatch = difference(_comparable(required), _comparable(shown), tolerance=CLOSE)
    if mismatch or "idsAfter" not in value:
        return mismatch
    left = [item["id"] for item in memory_list(context, limit=5000).details["items"]]
    return difference(value["idsAfter"], left, "idsAfter")


def _answer(context: ToolContext, value: Value, folder: Path) -> Value:
    """Run the call and return everything that a record may hold of it."""
    name, given = value["tool"], value["input"]
    if name not in CALLS:
        raise unknown_function(name)
    try:
        result = CALLS[name](context, value, folder)
    except UnusableInput as error:
        return {"error": str(error)}
    details = _masked(result.details, folder)
    answer: Value = {
        "text": result.text,
        "details": details,
        "receipt": details.get("receipt"),
        "warnings": list(result.log),
    }
    if name == "memory_list":
        items = details["items"]
        answer |= {"ids": [item["id"] for item in items], "firstItem": items[0] if items else None}
    elif name == "memory_stats":
        answer["stats"] = details["stats"]
    elif name == "memory_export":
        text = (folder / "state" / given["outPath"]).read_text("utf-8")
        answer |= {"file": text, "ids": _ids(text)}
    elif name == "memory_import" and not result.error:
        answer["rowsAfter"] = memory_list(context, limit=5000).details["items"]
    return answer


def _export(context: ToolContext, value: Value, folder: Path) -> ToolResult:
    given = value["input"]
    return memory_export(
        context,
        folder / "state" / given["outPath"],
        file_format=given.get("format"),
        scope=given.get("scope"),
        category=given.get("category"),
        limit=given.get("limit"),
        redact=given.get("redact") is not False,
    )


def _import(context: ToolContext, value: Value, folder: Path) -> ToolResult:
    given = value["input"]
    options = given.get("options", {})
    source = value["output"].get("details", {}).get("receipt", {}).get("source", f"in.{given.get('ext', 'jsonl')}")
    path = folder / Path(source).name
    if "payload" in given:
        path.write_text(_payload(given, value["output"]), "utf-8")
    return memory_import(
        context,
        path,
        file_format=options.get("format"),
        dedupe=options.get("dedupe"),
        scope=options.get("scope"),
        limit=options.get("limit"),
        dry_run=bool(options.get("dryRun")),
        validate_only=bool(options.get("validateOnly")),
    )


def _payload(given: Value, output: Value) -> str:
    """Return the imported file. Where a record describes one row with a vector, the row is taken from the answer."""
    payload = given["payload"]
    if isinstance(payload, str) and payload.startswith("one row"):
        row = next(row for row in output["rowsAfter"] if row["id"] != GENERATED)
        payload = [row | {"vector": embed(row["text"]).tolist() if "valid" in payload else [1.0, 2.0, 3.0]}]
    if isinstance(payload, str):
        return payload
    if given.get("ext") == "json" or not isinstance(payload, list):
        return json.dumps(payload)
    return "".join(json.dumps(record) + "\n" for record in payload)


def _filters(given: Value, *more: str) -> Value:
    return {key: given.get(key) for key in ("scope", "category", *more)}


CALLS: dict[str, Callable[[ToolContext, Value, Path], ToolResult]] = {
    "memory_list": lambda context, value, _: memory_list(context, **_filters(value["input"], "limit")),
    "memory_stats": lambda context, value, _: memory_stats(context, **_filters(value["input"])),
    "memory_export": _export,
    "memory_import": _import,
    "memory_forget": lambda context, value, _: memory_forget(
        context, memory_id=value["input"].get("memoryId"), query=value["input"].get("query")
    ),
    "memory_store": lambda context, value, _: memory_store(
        context, value["input"]["text"], **{key: inner for key, inner in value["input"].items() if key != "text"}
    ),
    "memory_docs_ingest": lambda context, value, _: memory_docs_ingest(context, None, value["input"]),
}


def _entries(rows: Sequence[Row]) -> list[Entry]:
    return [Entry(row, vector) for row, vector in zip(rows, vectors([row.text for row in rows]), strict=True)]


def _base(rows: Sequence[Value]) -> list[Entry]:
    """Return the rows of a small table, which were stored one after another."""
    stored = []
    for row in rows:
        score = importance_score(row.get("importance"))
        identity, text = row.get("id", GENERATED), row["text"]
        label = label_of_score(score)
        stored.append(
            Row(identity, identity, text, text, row.get("nowMs", NOW_MS), "other", label, "global", "user", score)
        )
    return _entries(stored)


def _masked(details: Value, folder: Path) -> Value:
    """Return details without the time that the call took, and with a placeholder for the folder."""
    text = json.dumps(details).replace(json.dumps(str(folder))[1:-1], "<TMP>")
    masked: Value = json.loads(text)
    masked.get("receipt", {}).pop("latencyMs", None)
    return masked


def _in_form(value: Any, required: Any) -> Any:
    """Return a long text as its record does: by its SHA-1, and its length in UTF-16 units."""
    if not (isinstance(value, str) and isinstance(required, dict)):
        return value
    octets = js_utf8(value)
    return {"sha1": hashlib.sha1(octets, usedforsecurity=False).hexdigest(), "length": js_length(value)}


def _ids(text: str) -> list[str]:
    """Return the ids in an export of either format."""
    rows = json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]
    return [row["id"] for row in rows]


def _comparable(output: Value) -> Value:
    """Return an output whose order does not depend on the generated ids."""
    if "rowsAfter" not in output:
        return output
    rows = [row | {"id": GENERATED} if str(row["id"]).startswith(GENERATED) else row for row in output["rowsAfter"]]
    return output | {"rowsAfter": sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))}
