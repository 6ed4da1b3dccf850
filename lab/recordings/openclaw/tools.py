"""Follow an agent's calls of the memory tools, made directly or through tool search.

A direct call is a ``toolCall`` part that a ``toolResult`` message answers. With tool search, the part is named
``tool_call`` and carries ``{id, args}``; its effect is recorded twice, in a message of role ``custom`` and in the
wrapper's result. The first of the two counts, and the second is ignored.

The tools of rsclaw (``memory_add`` and others) are read likewise, as those of the engine with the same effect.

Only confirmed calls have an effect: an error, or a result with another ``action``, stores and deletes nothing (E-38).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lab.recordings.events import RecordedMemory, ToolEvent
from lab.recordings.model import GLOBAL, LABELS, Memory
from lab.utf16 import has_lone_surrogate

NESTED = "openclaw.nested-tool.v1"
STORE, FORGET, RECALL = "memory_store", "memory_forget", "memory_recall"
WRAPPER = "tool_call"
# The tools of rsclaw: those that do what a tool of the engine does, and those without a counterpart.
PIN, UNPIN, SEARCH = "memory_pin", "memory_unpin", "memory_search"
ALIASES = {"memory_add": STORE, "memory_put": STORE, "memory_delete": FORGET}
TOOLS = (STORE, FORGET, RECALL, PIN, UNPIN, SEARCH)
# Times from 9999-01-01 on (epoch milliseconds) are invalid: datetime ends a year later, and turns with equal times are
# spread by a millisecond each.
NO_TIME_FROM = 253370764800000


class Call(NamedTuple):
    """A call without a result yet: the tool, the key of the memory that it would create, and its arguments."""

    tool: str
    key: str
    arguments: dict[str, Any]


class Result(NamedTuple):
    """The result of a tool call: whether it failed, and its details."""

    failed: bool
    details: dict[str, Any]


class ResultTime(NamedTuple):
    """The time of a result: the seq of the turn that follows, and epoch ms; whether the host had sent the message."""

    seq: int
    time_ms: int
    for_host: bool = False


class MemoryTools:
    """The memory calls of one conversation and their effects."""

    def __init__(self) -> None:
        self._stored: list[Memory] = []
        self._counts: Counter[str] = Counter()
        self._waiting: dict[str, Call] = {}
        # Call id -> what answered it first, because the wrapper's result and the nested entry report the same effect.
        self._answered: dict[str, str] = {}
        self._effects: dict[str, list[str]] = {}
        self._abandoned: Counter[str] = Counter()
        self._rows: dict[str, int] = {}
        self._texts: dict[str, str] = {}
        # Confirmed effects and recalls, each with the seq of the turn that follows.
        self.events: list[tuple[int, ToolEvent]] = []

    @property
    def memories(self) -> list[Memory]:
        """The stored memories in order, except those that were forgotten before a turn could recall them."""
        return [memory for memory in self._stored if not memory.is_forgotten_at(memory.visible_from)]

    def take_calls(self, content: Any, key: str) -> None:
        """Register the calls of a reply; the memories that they create get the keys ``<key>#<ordinal>``."""
        ordinal = 0
        for tool, identity, arguments in _calls_of(content):
            text = arguments.get("text") if isinstance(arguments, dict) else None
            if tool == STORE and not (isinstance(text, str) and text.strip()):
                self._counts[f"calls of {STORE} without a text"] += 1
            elif not isinstance(identity, str) or not isinstance(arguments, dict):
                self._counts[f"calls of {tool} without an id or arguments"] += 1
            else:
                self._expect_result(identity, Call(tool, f"{key}#{ordinal}", arguments))
            ordinal += tool == STORE

    def _expect_result(self, identity: str, call: Call) -> None:
        """Register a call that needs a result. Ids may repeat: some models number the calls of each reply anew."""
        if (previous := self._waiting.get(identity)) is not None:
            self._abandoned[previous.tool] += 1
        for name in (identity, *self._effects.pop(identity, ())):
            self._answered.pop(name, None)
        self._waiting[identity] = call

    def take_result(self, message: dict[str, Any], arrival: ResultTime) -> None:
        """Process a ``toolResult`` message."""
        identity = message.get("toolCallId")
        call = self._waiting.pop(identity, None) if isinstance(identity, str) else None
        if call is None or not isinstance(identity, str):
            return
        self._answered[identity] = "result"
        details = _dict(message.get("details"))
        # The wrapper's result contains the tool's result.
        inner = details.get("result")
        if isinstance(inner, dict) and "tool" in details:
            details = _dict(inner.get("details"))
        self._act(call, Result(message.get("isError") is True, details), arrival)

    def take_nested_result(self, details: dict[str, Any], key: str, arrival: ResultTime) -> None:
        """Process the effect of a call through tool search; ``key`` is the key of its entry."""
        tool = details.get("toolName")
        tool = ALIASES.get(tool, tool) if isinstance(tool, str) else None
        if tool not in TOOLS:
            return
        identity, parent = details.get("toolCallId"), details.get("parentToolCallId")
        names = [name for name in (parent, identity) if isinstance(name, str)]
        if isinstance(identity, str) and self._answered.get(identity) == "nested":
            return
        if isinstance(identity, str) and isinstance(parent, str):
            self._effects.setdefault(parent, []).append(identity)
        call = Call(tool, f"{key}#0", _arguments(details.get("input")))
        for name in names:
            if name in self._waiting and self._waiting[name].tool == tool:
                call = self._waiting.pop(name)
                self._answered[name] = "nested"
                break
            if self._answered.get(name) == "result":
                self._answered[name] = "nested"
                return
        if isinstance(identity, str):
            self._answered[identity] = "nested"
        result = _dict(details.get("result"))
        self._act(call, Result(details.get("isError") is True, _dict(result.get("details"))), arrival)

    def counts(self) -> dict[str, int]:
        """Return the number of calls and memories in each category that the notes report."""
        waiting = self._abandoned + Counter(call.tool for call in self._waiting.values())
        ends = {STORE: "stored", FORGET: "deleted"}
        open_calls = {
            f"calls of {tool} without a result, which count as not {end}": waiting[tool]
            for tool, end in ends.items()
            if waiting[tool]
        }
        return dict(self._counts) | open_calls

    def _act(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        {STORE: self._store, FORGET: self._forget, RECALL: self._recall}.get(call.tool, self._other)(
            call, tool_result, arrival
        )

    def _store(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        details, text = tool_result.details, call.arguments.get("text")
        if tool_result.failed or details.get("error") or details.get("action", "created") != "created":
            self._counts[f"calls of {STORE} that stored nothing"] += 1
            return
        if not isinstance(text, str) or not text.strip():
            self._counts[f"calls of {STORE} without a text"] += 1
            return
        row = details.get("id")
        if isinstance(row, str) and row:
            if row in self._rows:
                self._counts[f"results of {STORE} for a memory that was already stored"] += 1
                return
            self._rows[row] = len(self._stored)
        # The result overrides the arguments: the tool may have changed the values.
        label = details.get("importance_label")
        memory = Memory(
            call.key,
            text,
            text,
            visible_from=arrival.seq,
            created_at=arrival.time_ms,
            category=_word(details.get("category"))
            or _word(call.arguments.get("category"))
            or _word(call.arguments.get("kind"))
            or "other",
            scope=_word(details.get("scope")) or _word(call.arguments.get("scope")) or GLOBAL,
            label=label if label in LABELS else _label(call.arguments.get("importance")),
        )
        self._stored.append(memory)
        shown = RecordedMemory(text, _id(row) or memory.key, memory.category, memory.label or "", memory.scope)
        self._record(arrival, STORE, (shown,))

    def _forget(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        details = tool_result.details
        self._learn(details.get("candidates"))
        named = call.arguments.get("memoryId")
        # Hosts may trim the details of a result; without details, a result that is not an error counts as a success.
        trimmed = not details or details.get("deleted") is True
        action = details.get("action", "deleted" if trimmed and isinstance(named, str) else None)
        row = details.get("id", named)
        if action == "candidates" and not tool_result.failed and not details.get("error"):
            self._counts[f"calls of {FORGET} that listed candidates and deleted nothing"] += 1
        elif tool_result.failed or details.get("error") or action != "deleted" or not isinstance(row, str):
            self._counts[f"calls of {FORGET} that deleted nothing"] += 1
        elif (index := self._index_of(row)) is None:
            self._counts[f"calls of {FORGET} for memories that were stored elsewhere"] += 1
            self._record(arrival, FORGET, (RecordedMemory(self._texts.get(row, ""), _id(row)),))
        elif self._stored[index].visible_until is not None:
            self._counts[f"calls of {FORGET} for memories that were forgotten before"] += 1
        else:
            self._stored[index] = replace(self._stored[index], visible_until=arrival.seq)
            stored = self._stored[index]
            self._record(arrival, FORGET, (RecordedMemory(stored.text, row if row in self._rows else stored.key),))
            could_be_recalled = arrival.seq > self._stored[index].visible_from
            self._counts[
                "memories forgotten, which later turns cannot recall"
                if could_be_recalled
                else "memories forgotten before a turn could recall them, dropped"
            ] += 1

    def _recall(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        details, arguments = tool_result.details, call.arguments
        self._learn(details.get("memories"))
        listed, receipt = details.get("memories"), _dict(details.get("receipt"))
        query, scope = arguments.get("query"), arguments.get("scope")
        self._record(
            arrival,
            RECALL,
            tuple(_shown(row) for row in listed if isinstance(row, dict)) if isinstance(listed, list) else (),
            # Hosts may trim the details of a result; without them, it is unknown what was recalled.
            failed=tool_result.failed or bool(details.get("error")) or not isinstance(listed, list),
            query=query if isinstance(query, str) else "",
            limit=arguments.get("limit"),
            scope=scope if isinstance(scope, str) else None,
            model=_text(receipt.get("model")),
            searched_scope=_text(receipt.get("scope")),
            fts=_whole(receipt.get("ftsCount")),
            vec=_whole(receipt.get("vecCount")),
        )

    def _other(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        """Note a search, pin or unpin of rsclaw; what the search found is not read."""
        if tool_result.failed or tool_result.details.get("error"):
            return
        query, scope, row = (_text(call.arguments.get(name)) for name in ("query", "scope", "id"))
        shown = (RecordedMemory(self._texts.get(row, ""), _id(row)),) if row and call.tool != SEARCH else ()
        self._record(arrival, call.tool, shown, query=query, scope=scope or None, limit=call.arguments.get("top_k"))

    def _record(self, arrival: ResultTime, tool: str, memories: tuple[RecordedMemory, ...], **recall: Any) -> None:
        event = ToolEvent(tool, arrival.time_ms, memories, for_host=arrival.for_host, **recall)
        self.events.append((arrival.seq, event))

    def _learn(self, listed: Any) -> None:
        """Remember the text of each row id, because the result of a store call may lack the id."""
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("text"), str):
                self._texts[row["id"]] = row["text"]

    def _index_of(self, row: str) -> int | None:
        if row in self._rows:
            return self._rows[row]
        known = set(self._rows.values())
        unnamed = [
            index
            for index, memory in enumerate(self._stored)
            if index not in known and memory.visible_until is None and memory.text == self._texts.get(row)
        ]
        return unnamed[0] if unnamed else None


def _calls_of(content: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the tool, call id and arguments of each memory-tool call in a reply."""
    for tool, identity, arguments in calls_in(content):
        tool = ALIASES.get(tool, tool) if isinstance(tool, str) else None
        if tool in TOOLS:
            yield tool, identity, _arguments(arguments) if isinstance(arguments, dict) else arguments


def calls_in(content: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the tool, call id and arguments of each tool call in a reply; one through tool search is unwrapped."""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") != "toolCall":
            continue
        tool, arguments = part.get("name"), part.get("arguments")
        if tool == WRAPPER and isinstance(arguments, dict):
            # The id may be qualified: openclaw:openclaw-mem-engine:memory_store.
            tool, arguments = str(arguments.get("id", "")).rpartition(":")[2], arguments.get("args")
        yield tool, part.get("id"), arguments


def _arguments(given: Any) -> dict[str, Any]:
    """Return the arguments of a call; rsclaw names a memory by ``id``."""
    arguments = _dict(given)
    return arguments if "memoryId" in arguments or "id" not in arguments else {**arguments, "memoryId": arguments["id"]}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _shown(row: dict[str, Any]) -> RecordedMemory:
    """Return a memory in the result of a recall; fields of another type count as missing."""
    return RecordedMemory(
        _text(row.get("text")),
        _id(row.get("id")),
        _text(row.get("category")),
        _text(row.get("importance_label")),
        _text(row.get("scope")),
        _text(row.get("trust_tier")),
        _number(row.get("score")),
        _number(row.get("distance")),
        _whole(row.get("createdAt")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _id(value: Any) -> str:
    """Return the id of a row; blank if it is no text, or has half a character (a lone surrogate)."""
    return value if isinstance(value, str) and value.strip() and not has_lone_surrogate(value) else ""


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A larger integer is no float.
    return float(value) if is_number and abs(value) < 1e300 else None


def _whole(value: Any) -> int | None:
    """Return a whole number from 0 that could be a count or a time."""
    number = _number(value)
    return int(number) if number is not None and 0 <= number < NO_TIME_FROM else None


def _word(value: Any) -> str | None:
    """Return a name trimmed and in lower case, as the engine does, or None if it is blank or not a string."""
    return value.strip().lower() or None if isinstance(value, str) else None


def _label(importance: Any) -> str:
    """Return the label that ``memory_store`` derives from a score (E-2); ``unknown`` without a valid score."""
    try:
        score = float(importance.strip() or 0) if isinstance(importance, str) else importance
    except ValueError:
        return "unknown"
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        return "unknown"
    return "must_remember" if score >= 0.8 else "nice_to_have" if score >= 0.5 else "ignore"
