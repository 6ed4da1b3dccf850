"""Read from the transcripts of a host when users said something, and the receipts of the tool memory_recall (E-37).

A host writes the result of a tool as a message of the role ``toolResult``, or, if the agent called it through another
tool, as an entry of its own beside the result of that. Only receipts of the tool itself are read: the other result
repeats the same receipt.
"""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, NamedTuple

from lab.canary.audit.status import VECTOR_LANE, reading_of

TOOL = "memory_recall"
MARK = TOOL.encode()
# The role of a user's message, as hosts write it.
USER = b'"role":"user"'
_NESTED = "openclaw.nested-tool.v1"
# An hour, in milliseconds. A longer time is of a clock that was set.
_LONGEST = 3_600_000.0


class ToolRecall(NamedTuple):
    """One call of memory_recall: its id, whether it failed, and its milliseconds if a receipt says so.

    ``faults`` name what did not work according to its receipt; a call with any has failed.
    """

    call: str
    failed: bool
    milliseconds: float | None
    faults: tuple[str, ...] = ()


def user_turn(line: bytes) -> float | None:
    """Return when a user's message was written, in seconds since 1970; None for any other line of a transcript."""
    import orjson

    try:
        entry = _object(orjson.loads(line))
    except ValueError:
        return None
    message = _object(entry.get("message"))
    if message.get("role") != "user":
        return None
    stamp = entry.get("timestamp") or message.get("timestamp")
    if isinstance(stamp, str):
        try:
            return datetime.fromisoformat(stamp).timestamp()
        except ValueError:
            return None
    return stamp / 1000 if isinstance(stamp, int | float) and not isinstance(stamp, bool) else None


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
    receipt = _object(_object(details).get("receipt"))
    value, took = receipt.get("latencyMs"), None
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        took = float(value) if 0 <= value <= _LONGEST else None
    faults = faults_of(receipt)
    failed = is_error is True or bool(_object(details).get("error")) or bool(faults)
    return ToolRecall(identifier if isinstance(identifier, str) else "", failed, took, faults)


def faults_of(receipt: dict[str, Any]) -> tuple[str, ...]:
    """Return what did not work according to the receipt of a call of memory_recall."""
    lifecycle = receipt.get("lifecycle")
    if isinstance(lifecycle, dict):
        return reading_of(lifecycle).faults
    # Without receipts.enabled only the numbers of hits are there.
    return (VECTOR_LANE,) if receipt.get("vecCount") == 0 and receipt.get("ftsCount") not in (0, None) else ()


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
