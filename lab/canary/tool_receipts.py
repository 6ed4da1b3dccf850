"""Read the receipts of the tool memory_recall from the transcripts of a host (E-37): its time, and whether it failed.

A host writes the result of a tool as a message of the role ``toolResult``, or, if the agent called it through another
tool, as an entry of its own beside the result of that. Only receipts of the tool itself are read: the other result
repeats the same receipt.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

TOOL = "memory_recall"
MARK = TOOL.encode()
_NESTED = "openclaw.nested-tool.v1"
# An hour, in milliseconds. A longer time is of a clock that was set.
_LONGEST = 3_600_000.0


class ToolRecall(NamedTuple):
    """One call of memory_recall: its id, whether it failed, and its milliseconds if a receipt says so."""

    call: str
    failed: bool
    milliseconds: float | None


def tool_recall(line: bytes) -> ToolRecall | None:
    """Return the call that a line of a transcript is the result of; None for any other line."""
    import orjson

    if MARK not in line:
        return None
    try:
        entry = orjson.loads(line)
    except ValueError:
        return None
    message = _object(_object(entry).get("message"))
    if message.get("role") == "toolResult" and message.get("toolName") == TOOL:
        return _call(message.get("toolCallId"), message.get("isError"), message.get("details"))
    details = _object(message.get("details"))
    if message.get("customType") == _NESTED and details.get("toolName") == TOOL:
        result = _object(details.get("result"))
        return _call(details.get("toolCallId"), details.get("isError"), result.get("details"))
    return None


def _call(identifier: object, is_error: object, details: object) -> ToolRecall:
    value = _object(_object(details).get("receipt")).get("latencyMs")
    took = None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        took = float(value) if 0 <= value <= _LONGEST else None
    failed = is_error is True or bool(_object(details).get("error"))
    return ToolRecall(identifier if isinstance(identifier, str) else "", failed, took)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
