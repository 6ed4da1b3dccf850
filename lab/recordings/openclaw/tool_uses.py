"""Collect the calls of every tool in a transcript, and their results, each once."""

from __future__ import annotations

import json
from typing import Any

from lab.recordings.events import ToolUse
from lab.recordings.openclaw.calls import answered_by, calls_in
from lab.recordings.openclaw.tools import ResultTime

# Characters of a text that are kept. A cut text ends after a word, because half a secret is not recognised as one.
KEPT = 4000


class ToolUses:
    """The tool uses of one conversation, each with the seq of the turn that follows.

    A call through tool search has two results: the nested one, which counts, and the wrapper's, which repeats it.
    """

    def __init__(self) -> None:
        self._uses: list[tuple[int, str | None, ToolUse]] = []
        self._nested: set[str] = set()

    @property
    def uses(self) -> list[tuple[int, ToolUse]]:
        """The calls and results in order."""
        return [(seq, use) for seq, wrapper, use in self._uses if wrapper is None or wrapper not in self._nested]

    def take_calls(self, content: Any, key: str, arrival: ResultTime) -> None:
        """Add the calls in a reply."""
        for number, (tool, _, arguments) in enumerate(calls_in(content)):
            text = json.dumps(arguments, ensure_ascii=False, sort_keys=True)
            self._add(ToolUse(f"{key}#call{number}", _name(tool), arrival.time_ms, _cut(text)), arrival)

    def take_result(self, message: dict[str, Any], text: str, key: str, arrival: ResultTime) -> None:
        """Add a ``toolResult`` message, whose content has the text."""
        is_error = message.get("isError") is True
        use = ToolUse(f"{key}#result", _name(message.get("toolName")), arrival.time_ms, _cut(text), True, is_error)
        self._add(use, arrival, answered_by(message))

    def take_nested_result(self, details: dict[str, Any], text: str, key: str, arrival: ResultTime) -> None:
        """Add the result of a call through tool search, whose content has the text."""
        parent = details.get("parentToolCallId")
        if isinstance(parent, str):
            self._nested.add(parent)
        is_error = details.get("isError") is True
        use = ToolUse(f"{key}#result", _name(details.get("toolName")), arrival.time_ms, _cut(text), True, is_error)
        self._add(use, arrival)

    def _add(self, use: ToolUse, arrival: ResultTime, wrapper: str | None = None) -> None:
        self._uses.append((arrival.seq, wrapper, use))


def _name(tool: Any) -> str:
    return tool if isinstance(tool, str) and tool.strip() else "tool"


def _cut(text: str) -> str:
    return text if len(text) <= KEPT else text[:KEPT].rpartition(" ")[0]
