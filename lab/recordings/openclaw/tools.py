"""Follow an agent's calls of tools: what its memory tools did, and every tool's calls and results, each once.

A direct call is a ``toolCall`` part that a ``toolResult`` message answers. With tool search, the part is named
``tool_call`` and carries ``{id, args}``; its effect is recorded twice, in a message of role ``custom`` and in the
wrapper's result. The first of the two counts, and the second is ignored.

The tools of rsclaw and mem0 (``memory_add`` and others) are read likewise, as those of the engine with the same effect.
Calls of other tools of memory plugins are counted by name, because they are not replayed (TE-2).

Only confirmed calls have an effect (E-38): see :mod:`lab.recordings.openclaw.outcomes`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.times import epoch_ms
from lab.base.utf16 import has_lone_surrogate
from lab.recordings.events import RecordedMemory, ToolEvent, ToolUse
from lab.recordings.model import GLOBAL, LABELS, Memory
from lab.recordings.openclaw.entries import text_of
from lab.recordings.openclaw.outcomes import (
    DELETED,
    LISTED,
    STORED,
    UNKNOWN,
    Outcome,
    object_in,
    outcome_of,
    quoted_in,
    row_in,
)

WRAPPER = "tool_call"
# Types of a part that calls a tool, and names of the id that a result answers, in the versions of the host.
_CALLS = ("toolCall", "toolUse", "functionCall")
_ANSWERS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id")
# Names of tools of memory plugins: memory_update, mem0_delete, mcp__openmemory__add_memories, remember.
_OF_PLUGIN = regex(r"memory|memories|(?:^|[\W_])(?:mem\d?|ltm|remember|forget|recall|memori[sz]e)(?:[\W_]|$)")


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


NESTED = "openclaw.nested-tool.v1"
STORE, FORGET, RECALL = "memory_store", "memory_forget", "memory_recall"
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
    """The result of a tool call: whether it failed, its details, and its text."""

    failed: bool
    details: dict[str, Any]
    text: str = ""


class ResultTime(NamedTuple):
    """The time of a result: the seq of the turn that follows, and epoch ms; whether the host had sent the message.

    ``abandoned``: the result is on an abandoned branch, so its effect happened, but no turn of the recording asked.
    """

    seq: int
    time_ms: int
    for_host: bool = False
    abandoned: bool = False


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
        # Ids of calls of tools that are not replayed.
        self._unread: set[str] = set()
        # Confirmed effects and recalls, each with the seq of the turn that follows.
        self.events: list[tuple[int, ToolEvent]] = []

    @property
    def memories(self) -> list[Memory]:
        """The stored memories in order, except those that were forgotten before a turn could recall them."""
        return [memory for memory in self._stored if not memory.is_forgotten_at(memory.visible_from)]

    def take_calls(self, content: Any, key: str) -> None:
        """Register the calls of a reply; the memories that they create get the keys ``<key>#<ordinal>``."""
        ordinal = 0
        for tool, identity, arguments in calls_in(content):
            tool = ALIASES.get(tool, tool) if isinstance(tool, str) else ""
            if tool not in TOOLS:
                self._leave(tool, identity)
                continue
            arguments = arguments_of(arguments) if isinstance(arguments, dict) else arguments
            if tool == STORE and isinstance(arguments, dict) and not texts_of(arguments):
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
        identity = answered_by(message)
        call = self._waiting.pop(identity, None) if isinstance(identity, str) else None
        if call is None or not isinstance(identity, str):
            return
        self._answered[identity] = "result"
        details, text = _dict(message.get("details")), text_of(message.get("content"))
        # The wrapper's result contains the tool's result, in its details and as JSON in its text.
        for wrapper in (details, object_in(text)):
            inner = wrapper.get("result")
            if isinstance(inner, dict) and "tool" in wrapper:
                details, text = _dict(inner.get("details")), text_of(inner.get("content"))
                break
        self._act(call, Result(message.get("isError") is True, details, text), arrival)

    def take_nested_result(self, details: dict[str, Any], key: str, arrival: ResultTime) -> None:
        """Process the effect of a call through tool search; ``key`` is the key of its entry."""
        tool = details.get("toolName")
        tool = ALIASES.get(tool, tool) if isinstance(tool, str) else ""
        identity, parent = details.get("toolCallId"), details.get("parentToolCallId")
        if tool not in TOOLS:
            if parent not in self._unread and identity not in self._unread:
                self._leave(tool, identity)
            return
        names = [name for name in (parent, identity) if isinstance(name, str)]
        if isinstance(identity, str) and self._answered.get(identity) == "nested":
            return
        if isinstance(identity, str) and isinstance(parent, str):
            self._effects.setdefault(parent, []).append(identity)
        call = Call(tool, f"{key}#0", arguments_of(details.get("input")))
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
        failed, text = details.get("isError") is True, text_of(result.get("content"))
        self._act(call, Result(failed, _dict(result.get("details")), text), arrival)

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

    def _leave(self, tool: str, identity: Any) -> None:
        """Count a call of a tool that is not replayed, if it is one of a memory plugin."""
        if is_of_memory_plugin(tool):
            self._counts[f"calls of {tool[:60]}, which are not replayed"] += 1
            if isinstance(identity, str):
                self._unread.add(identity)

    def _decide(self, what: str, tool: str, result: Result) -> Outcome:
        """Return what a call did, and count it if it did nothing or if that is unknown (TE-1)."""
        outcome = outcome_of(what, failed=result.failed, details=result.details, text=result.text)
        did = {"store": "stored", "forget": "deleted"}[what]
        if outcome.kind == UNKNOWN:
            self._counts[f"calls of {tool} whose results say nothing, which count as not {did}"] += 1
        elif outcome.kind == LISTED:
            self._counts[f"calls of {tool} that listed candidates and deleted nothing"] += 1
        elif outcome.kind not in (STORED, DELETED):
            self._counts[f"calls of {tool} that {did} nothing ({outcome.kind})"] += 1
        return outcome

    def _act(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        {STORE: self._store, FORGET: self._forget, RECALL: self._recall}.get(call.tool, self._other)(
            call, tool_result, arrival
        )

    def _store(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        texts = texts_of(call.arguments)
        outcome = self._decide("store", STORE, tool_result)
        if outcome.kind != STORED:
            return
        if not texts:
            self._counts[f"calls of {STORE} without a text"] += 1
            return
        details = outcome.details
        row = details.get("id") or row_in(outcome.text)
        row = row if isinstance(row, str) and row not in texts else ""
        self._end(details.get("supersededId"), arrival)
        if row and row in self._rows:
            self._counts[f"results of {STORE} for a memory that was already stored"] += 1
            return
        # The result overrides the arguments: the tool may have changed the values.
        label = details.get("importance_label")
        for number, text in enumerate(texts):
            if row and not number:
                self._rows[row] = len(self._stored)
            memory = Memory(
                f"{call.key}-{number + 1}" if number else call.key,
                text,
                text,
                visible_from=arrival.seq,
                created_at=arrival.time_ms,
                category=_word(details.get("category"))
                or _word(call.arguments.get("category"))
                or _word(call.arguments.get("kind"))
                or "other",
                scope=_word(details.get("scope")) or _word(call.arguments.get("scope")) or GLOBAL,
                label=label if label in LABELS else label_of(call.arguments.get("importance")),
            )
            self._stored.append(memory)
            named = _id(row) if not number else ""
            shown = RecordedMemory(text, named or memory.key, memory.category, memory.label or "", memory.scope)
            self._record(arrival, STORE, (shown,))

    def _end(self, row: Any, arrival: ResultTime) -> None:
        """End the memory that a new one supersedes, if it was stored here."""
        index = self._index_of(row) if isinstance(row, str) else None
        if index is not None and self._stored[index].visible_until is None:
            self._stored[index] = replace(self._stored[index], visible_until=arrival.seq)
            self._counts["memories superseded by later ones, which later turns cannot recall"] += 1

    def _forget(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        self._learn(tool_result.details.get("candidates"))
        named = call.arguments.get("memoryId")
        outcome = self._decide("forget", FORGET, tool_result)
        row = outcome.details.get("id", named)
        row = row if isinstance(row, str) and row else self._row_of(outcome.text)
        if outcome.kind != DELETED:
            return
        if row is None:
            self._counts[f"calls of {FORGET} that do not say which memory was deleted"] += 1
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
            reasons=_reasons(_dict(receipt.get("lifecycle"))),
        )

    def _other(self, call: Call, tool_result: Result, arrival: ResultTime) -> None:
        """Note a search, pin or unpin of rsclaw; what the search found is not read."""
        if tool_result.failed or tool_result.details.get("error"):
            return
        query, scope, row = (_text(call.arguments.get(name)) for name in ("query", "scope", "id"))
        shown = (RecordedMemory(self._texts.get(row, ""), _id(row)),) if row and call.tool != SEARCH else ()
        self._record(arrival, call.tool, shown, query=query, scope=scope or None, limit=call.arguments.get("top_k"))

    def _record(self, arrival: ResultTime, tool: str, memories: tuple[RecordedMemory, ...], **recall: Any) -> None:
        if arrival.abandoned:
            if tool not in (STORE, FORGET):
                # A search on an abandoned branch belongs to no turn of the replay.
                return
            self._counts["effects of memory tools on abandoned branches, which happened all the same"] += 1
        event = ToolEvent(tool, arrival.time_ms, memories, for_host=arrival.for_host, **recall)
        self.events.append((arrival.seq, event))

    def _learn(self, listed: Any) -> None:
        """Remember the text of each row id, because the result of a store call may lack the id."""
        for row in listed if isinstance(listed, list) else ():
            if isinstance(row, dict) and isinstance(row.get("id"), str) and isinstance(row.get("text"), str):
                self._texts[row["id"]] = row["text"]

    def _row_of(self, text: str) -> str | None:
        """Return the id, or else the key, of the only memory that a result quotes."""
        if row := row_in(text):
            return row
        live = [memory for memory in self._stored if memory.visible_until is None]
        for quote, is_cut in quoted_in(text):
            same = [memory for memory in live if memory.text == quote or (is_cut and memory.text.startswith(quote))]
            if len(same) == 1:
                index = self._stored.index(same[0])
                return next((row for row, at in self._rows.items() if at == index), same[0].key)
        return None

    def _index_of(self, row: str) -> int | None:
        if row in self._rows:
            return self._rows[row]
        if (keyed := next((at for at, memory in enumerate(self._stored) if memory.key == row), None)) is not None:
            return keyed
        known = set(self._rows.values())
        unnamed = [
            index
            for index, memory in enumerate(self._stored)
            if index not in known and memory.visible_until is None and memory.text == self._texts.get(row)
        ]
        return unnamed[0] if unnamed else None


def _reasons(lifecycle: dict[str, Any]) -> tuple[str, ...]:
    """Return the reasons that the receipt of a recall gives for what it did not do."""
    rejected = lifecycle.get("rejected")
    listed = [lifecycle.get("skipReason"), *(rejected if isinstance(rejected, list) else ())]
    return tuple(dict.fromkeys(reason for reason in listed if isinstance(reason, str) and reason))


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
        _time(row.get("createdAt")),
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
    """Return a whole number from 0 that could be a count."""
    number = _number(value)
    return int(number) if number is not None and 0 <= number < NO_TIME_FROM else None


def _time(value: Any) -> int | None:
    time_ms = epoch_ms(value)
    return time_ms if time_ms is not None and 0 <= time_ms < NO_TIME_FROM else None


def _word(value: Any) -> str | None:
    """Return a name trimmed and in lower case, as the engine does, or None if it is blank or not a string."""
    return value.strip().lower() or None if isinstance(value, str) else None


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
