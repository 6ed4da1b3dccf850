"""Explicit requests of a turn: the chat commands and the calls of memory tools in a transcript (RS-24, RS-25)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from lab.recordings.events import RecordedMemory, ToolEvent
from lab.recordings.model import Turn
from lab.systems.rsclaw.document import abstract

Action = Literal["add", "search", "compact", "delete", "pin", "unpin"]
TOP_K, MOST_TOP_K = 5, 25
# The longest summary of a session, in characters.
SUMMARY = 1200
_COMMAND = re.compile(r"/(remember|recall)\s+(\S.*)|/(compact)", re.IGNORECASE | re.DOTALL)
_ACTIONS: dict[str, Action] = {
    "memory_add": "add",
    "memory_store": "add",
    "memory_search": "search",
    "memory_recall": "search",
    "memory_delete": "delete",
    "memory_forget": "delete",
    "memory_pin": "pin",
    "memory_unpin": "unpin",
}
_CHAT: dict[str, Action] = {"remember": "add", "recall": "search", "compact": "compact"}


class Order(NamedTuple):
    """One order. ``memory`` is what a tool stored, deleted or pinned; ``text`` is a text to store or a query.

    ``top_k`` is how many documents a search is for; ``scope`` is an explicit one.
    """

    action: Action
    text: str = ""
    memory: RecordedMemory | None = None
    scope: str | None = None
    top_k: int = TOP_K


def command_in(text: str) -> Order | None:
    """Return the chat command that a user's message consists of, if it is one."""
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    return Order(_CHAT[(match[1] or match[3]).lower()], (match[2] or "").strip())


def tool_orders(turn: Turn) -> Iterator[Order]:
    """Yield what the memory tools did at a turn, in order. Failed calls order nothing."""
    for event in turn.events:
        if not isinstance(event, ToolEvent) or event.failed or event.tool not in _ACTIONS:
            continue
        action = _ACTIONS[event.tool]
        if action == "search":
            if event.query.strip():
                yield Order(action, event.query, scope=event.scope, top_k=top_k_of(event.limit))
        else:
            yield from (Order(action, memory.text, memory, memory.scope or None) for memory in event.memories)


def top_k_of(limit: object) -> int:
    """Return how many results a search is for: 5 by default, from 1 to 25."""
    if isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit:
        return TOP_K
    return int(min(max(limit, 1), MOST_TOP_K))


def session_summary(messages: Sequence[str]) -> str:
    """Return what /compact stores without a language model: the first sentence of each message, cut to length."""
    return "\n".join(filter(None, map(abstract, messages)))[:SUMMARY].strip()
