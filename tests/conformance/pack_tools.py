"""The parts of the second pack of vectors that call tools (E-37, E-86, E-87, E-89, E-90) and the preflight (E-91)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from lab.base.errors import UnusableInput
from lab.memory.tools.context import ToolContext, ToolResult
from lab.memory.tools.listing import memory_list, memory_stats
from lab.memory.tools.preflight import Ran, preflight, preflight_settings
from lab.memory.tools.store import memory_forget, memory_store
from lab.systems.openclaw.recall.turn import Memories
from lab.systems.openclaw.recall_tool import DEFAULT_LIMIT, clamp_limit, memory_recall
from lab.systems.openclaw.table.schema import Entry
from tests.conformance.admin_calls import context_of
from tests.conformance.e2e import plugin_config
from tests.conformance.embedding import DIMENSION
from tests.conformance.memory_table import InMemoryTable
from tests.conformance.scripted import Scripted
from tests.conformance.values import Difference, difference

Value = dict[str, Any]
Run = Callable[[], Difference | None]
Runs = Iterator[tuple[str, Run]]
# What differs from run to run, as the pack masks it.
MASKED = {"dbPath": "<path>", "latencyMs": "<ms>"}


def tool_calls(case: Value, no_vector: str | None) -> Runs:
    """Run the calls of a case, in order, on one table."""
    scripted = Scripted(case["rows"], vectors=no_vector is None)
    zero = [0.0] * DIMENSION
    table = InMemoryTable([Entry(row, zero) for row in scripted.rows])
    for number, call in enumerate(case["calls"]):
        answer = partial(_answer, case, call, scripted, table, no_vector)
        yield str(number), partial(_compare, call["result"], answer)


def _compare(expected: Any, answer: Callable[[], Any]) -> Difference | None:
    return difference(expected, answer())


def _answer(case: Value, call: Value, scripted: Scripted, table: InMemoryTable, no_vector: str | None) -> Value:
    params = call["params"]
    if call["tool"] == "memory_recall":
        memories = Memories(scripted, scripted.rows, scripted.by_id, listing=scripted.listing, no_vector=no_vector)
        limit = clamp_limit(params["limit"]) if "limit" in params else DEFAULT_LIMIT
        recalled = memory_recall(
            params["query"], plugin_config(case["config"]), memories, limit=limit, scope=params.get("scope")
        )
        named = {"dbPath": "", "tableName": "memories", "model": "text-embedding-3-small", "latencyMs": 0}
        details = recalled.details
        return _shown(recalled.text, details | {"receipt": named | details["receipt"]})
    new_id = partial(_recorded_id, call["result"])
    try:
        result = CALLS[call["tool"]](context_of(table, case, new_id, no_vector), params)
    except UnusableInput as error:
        return {"thrown": str(error)}
    return _shown(result.text, result.details)


CALLS: dict[str, Callable[[ToolContext, Value], ToolResult]] = {
    "memory_store": lambda context, params: memory_store(context, **params),
    "memory_forget": lambda context, params: memory_forget(
        context, memory_id=params.get("memoryId"), query=params.get("query")
    ),
    "memory_stats": lambda context, params: memory_stats(context, **params),
    "memory_list": lambda context, params: memory_list(context, **params),
}


def _recorded_id(result: Value) -> str:
    """Return the id that the plugin drew."""
    return str(result["details"]["id"])


def _shown(text: str, details: Value) -> Value:
    shown: Value = json.loads(json.dumps(details))
    if "receipt" in shown:
        shown["receipt"] |= {key: mask for key, mask in MASKED.items() if key in shown["receipt"]}
    return {"content": [{"type": "text", "text": text}], "details": shown}


def preflights(records: Any) -> Runs:
    """Run the preflight with recorded results of its command."""
    for record in records:
        yield record["name"], partial(_preflight, record)


def _preflight(record: Value) -> Difference | None:
    raw = {"weijiMemoryPreflight": {"enabled": True, **record["config"]}}
    ran = _ran(record["runnerResult"])
    verdict = preflight(preflight_settings(raw, "upstream"), {}, lambda *_: ran, lambda: 0, strict=False)
    # The arguments name a file that has another name in every call.
    receipt = {key: value for key, value in verdict.receipt.items() if key in record["receipt"]}
    found = {"allowed": not verdict.blocked, "blocked": verdict.blocked, "receipt": receipt}
    return difference({key: record[key] for key in found}, found)


def _ran(result: Mapping[str, Any]) -> Ran:
    return Ran(
        result["ok"],
        result["exitCode"],
        result.get("stdout", ""),
        result.get("stderr", ""),
        result.get("errorCode"),
        result.get("errorMessage"),
    )
