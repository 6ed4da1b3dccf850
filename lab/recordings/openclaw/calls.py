"""The calls of tools in a reply: direct ones and those through tool search, in the forms of the host's versions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lab.recordings.openclaw.outcomes import object_in

WRAPPER = "tool_call"
# Types of a part that calls a tool, and names of the id that a result answers, in the versions of the host.
_CALLS = ("toolCall", "toolUse", "functionCall")
_ANSWERS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id")
# Names of tools of memory plugins: memory_update, mem0_delete, mcp__openmemory__add_memories, remember.
_OF_PLUGIN = re.compile(r"memory|memories|(?:^|[\W_])(?:mem\d?|ltm|remember|forget|recall|memori[sz]e)(?:[\W_]|$)")


def is_of_memory_plugin(tool: str) -> bool:
    """Return whether the name of a tool looks like that of a memory plugin's (TE-2)."""
    return _OF_PLUGIN.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", tool).lower()) is not None


def calls_in(content: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the tool, call id and arguments of each tool call in a reply; one through tool search is unwrapped."""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") not in _CALLS:
            continue
        tool, arguments = part.get("name"), part.get("arguments", part.get("input"))
        arguments = object_in(arguments) if isinstance(arguments, str) and arguments.startswith("{") else arguments
        if tool == WRAPPER and isinstance(arguments, dict):
            # The id may be qualified: openclaw:openclaw-mem-engine:memory_store.
            tool, arguments = str(arguments.get("id", "")).rpartition(":")[2], arguments.get("args")
        yield tool, part.get("id"), arguments


def answered_by(message: dict[str, Any]) -> str | None:
    """Return the id of the call that a ``toolResult`` message answers."""
    return next((value for name in _ANSWERS if isinstance(value := message.get(name), str)), None)


def texts_of(arguments: dict[str, Any]) -> list[str]:
    """Return the texts to store; mem0 takes several, as ``facts``."""
    facts = arguments.get("facts")
    texts = facts if isinstance(facts, list) and facts else [arguments.get("text")]
    return [text for text in texts if isinstance(text, str) and text.strip()]


def arguments_of(given: Any) -> dict[str, Any]:
    """Return the arguments of a call; rsclaw names a memory by ``id``."""
    arguments = given if isinstance(given, dict) else {}
    return arguments if "memoryId" in arguments or "id" not in arguments else {**arguments, "memoryId": arguments["id"]}


def label_of(importance: Any) -> str:
    """Return the label that ``memory_store`` derives from a score (E-2); ``unknown`` without a valid score."""
    try:
        score = float(importance.strip() or 0) if isinstance(importance, str) else importance
    except ValueError:
        return "unknown"
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        return "unknown"
    return "must_remember" if score >= 0.8 else "nice_to_have" if score >= 0.5 else "ignore"
