"""Adapters for the pure steps of the administration tools (E-85, E-87, E-92)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lab.memory.tools.listing import statistics_of
from lab.systems.openclaw.js import js_text, to_number
from lab.systems.openclaw.memory import is_uuid
from lab.systems.openclaw.recall_tool import clamp_limit
from lab.systems.openclaw.table.admin import (
    admin_category,
    admin_limit,
    dedupe_mode,
    filtered,
    format_of,
    is_working_set,
    iso_time,
    newest_first,
    oldest_first,
)
from tests.conformance.functions_inject import unknown_function
from tests.conformance.functions_other import without_undefined
from tests.conformance.plugin_hook import cap_calls
from tests.conformance.plugin_reading import lines_of, safe_name
from tests.conformance.plugin_rules import scalar_row
from tests.conformance.values import UNDEFINED

Value = dict[str, Any]


class Plain(NamedTuple):
    """The fields of a row that the pure steps read."""

    id: str
    text: str
    created_at: float
    category: str
    scope: str


def admin_units(record: Value) -> Any:
    """Run one of the pure steps of the administration tools."""
    name = record["fn"]
    if name not in UNITS:
        raise unknown_function(name)
    result = UNITS[name](record["input"])
    return UNDEFINED if result is None else result


def _limit(given: Value) -> int:
    return admin_limit(given["raw"], given["fallback"]) if "fallback" in given else admin_limit(given["raw"])


def _plain(rows: Sequence[Value]) -> list[Plain]:
    """Return rows without the vector; the index of a row is looked up by its identity, because ids may repeat."""
    return [
        Plain(
            js_text(row.get("id")),
            js_text(row.get("text")),
            to_number(row.get("createdAt")),
            js_text(row.get("category")),
            js_text(row.get("scope")),
        )
        for row in rows
    ]


def _positions(rows: Sequence[Plain], chosen: Sequence[Plain]) -> list[int]:
    return [next(at for at, row in enumerate(rows) if row is one) for one in chosen]


def _filtered(given: Value) -> list[int]:
    rows, filters = _plain(given["rows"]), without_undefined(given.get("filters") or {})
    return _positions(rows, filtered(rows, filters.get("scope") or None, filters.get("category") or None))


def _sorted(given: Value) -> Value:
    rows = _plain(given["rows"])
    return {"desc": _positions(rows, newest_first(rows)), "asc": _positions(rows, oldest_first(rows))}


def _sliced(given: Value) -> Value:
    given = without_undefined(given)
    lines = lines_of(given["text"], given.get("from"), given.get("lines"))
    return {
        "text": lines.text,
        "from": lines.first,
        "lines": lines.requested,
        "truncated": lines.truncated,
        "nextFrom": UNDEFINED if lines.next_line is None else lines.next_line,
    }


def _capped(given: Value) -> Value:
    calls = {f"k{number}": number for number in range(given["size"])}
    dropped = cap_calls(calls, given["maxEntries"])
    return {"dropped": dropped, "left": list(calls)}


UNITS: dict[str, Callable[[Value], Any]] = {
    "normalizeAdminLimit": _limit,
    "clampLimit": lambda given: clamp_limit(given["raw"]),
    "normalizeAdminCategory": lambda given: admin_category(given["raw"]),
    "parseAdminImportDedupe": lambda given: dedupe_mode(given["raw"]),
    "detectAdminExportFormat": lambda given: format_of(given["path"], given.get("format")),
    "isUuidLike": lambda given: is_uuid(given["raw"]),
    "toIsoTime": lambda given: iso_time(to_number(without_undefined(given["raw"]))),
    "isWorkingSetMemoryId": lambda given: is_working_set(given["id"]),
    "sanitizeRuntimeMemoryIdForPath": lambda given: safe_name(without_undefined(given["id"])),
    "sliceRuntimeMemoryText": _sliced,
    "computeMemoryStats": lambda given: statistics_of(_plain(given["rows"]), given["nowMs"]),
    "applyAdminFilters": _filtered,
    "sortByCreatedAt": _sorted,
    "toMemoryScalarRow": lambda given: scalar_row(without_undefined(given["raw"])),
    "capPromptMutationHookRuns": _capped,
}
