"""What an agent's memory tools did: ``memory_store`` and ``memory_forget``, called directly or through tool search.

A direct call is a ``toolCall`` part that a ``toolResult`` message answers. With tool search the part is named
``tool_call`` and carries ``{id, args}``; its effect stands in a message of role ``custom`` and in the wrapper's own
result. Whichever of the two comes first decides, and the other one adds nothing.

Only confirmed calls act: an error, or a result with another ``action``, stores and deletes nothing (E-38).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from lab.recordings.model import GLOBAL, LABELS, Memory

NESTED = "openclaw.nested-tool.v1"
STORE, FORGET, RECALL = "memory_store", "memory_forget", "memory_recall"
WRAPPER = "tool_call"


class Call(NamedTuple):
    """A call that waits for its result: the tool, the key of the memory it would make, and what it was given."""

    tool: str
    key: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """What a tool answered: whether it failed, and its details."""

    failed: bool
    details: dict[str, Any]


class Moment(NamedTuple):
    """When a result came: the seq of the turn that follows, and the time in epoch milliseconds."""

    seq: int
    time_ms: int


class MemoryTools:
    """Follows the memory calls of one conversation."""

    def __init__(self) -> None:
        self._stored: list[Memory] = []
        self._counts: Counter[str] = Counter()
        self._waiting: dict[str, Call] = {}
        # Calls that were answered, and by what: the wrapper's result and the nested entry tell of one effect.
        self._answered: dict[str, str] = {}
        self._effects: dict[str, list[str]] = {}
        self._abandoned: Counter[str] = Counter()
        self._rows: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    @property
    def memories(self) -> list[Memory]:
        """Those that were stored, in order, without those that were forgotten before a turn could recall them."""
        return [one for one in self._stored if not one.is_forgotten_at(one.visible_from)]

    def called(self, content: Any, key: str) -> None:
        """Note the calls of a reply; the memories that they make are keyed ``<key>#<ordinal>``."""
        ordinal = 0
        for tool, identity, arguments in _calls_of(content):
            text = arguments.get("text") if isinstance(arguments, dict) else None
            if tool == STORE and not (isinstance(text, str) and text.strip()):
                self._counts[f"calls of {STORE} without a text"] += 1
            elif not isinstance(identity, str) or not isinstance(arguments, dict):
                self._counts[f"calls of {tool} without an id or arguments"] += 1
            else:
                self._wait(identity, Call(tool, f"{key}#{ordinal}", arguments))
            ordinal += tool == STORE

    def _wait(self, identity: str, call: Call) -> None:
        """Wait for a call's result. Some models count their calls anew in every reply, so an id may come again."""
        if (before := self._waiting.get(identity)) is not None:
            self._abandoned[before.tool] += 1
        for name in (identity, *self._effects.pop(identity, ())):
            self._answered.pop(name, None)
        self._waiting[identity] = call

    def answered(self, message: dict[str, Any], moment: Moment) -> None:
        """Take a ``toolResult`` message."""
        identity = message.get("toolCallId")
        call = self._waiting.pop(identity, None) if isinstance(identity, str) else None
        if call is None or not isinstance(identity, str):
            return
        self._answered[identity] = "result"
        details = _dict(message.get("details"))
        # The wrapper's result holds that of the tool.
        inner = details.get("result")
        if isinstance(inner, dict) and "tool" in details:
            details = _dict(inner.get("details"))
        self._act(call, Answer(message.get("isError") is True, details), moment)

    def nested(self, details: dict[str, Any], key: str, moment: Moment) -> None:
        """Take the effect of a call through tool search; ``key`` is that of its entry."""
        tool = details.get("toolName")
        if tool not in (STORE, FORGET, RECALL):
            return
        identity, parent = details.get("toolCallId"), details.get("parentToolCallId")
        names = [one for one in (parent, identity) if isinstance(one, str)]
        if isinstance(identity, str) and self._answered.get(identity) == "nested":
            return
        if isinstance(identity, str) and isinstance(parent, str):
            self._effects.setdefault(parent, []).append(identity)
        call = Call(str(tool), f"{key}#0", _dict(details.get("input")))
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
        self._act(call, Answer(details.get("isError") is True, _dict(result.get("details"))), moment)

    def counts(self) -> dict[str, int]:
        """What became of the calls that did not simply store, by what is said of them."""
        waiting = self._abandoned + Counter(call.tool for call in self._waiting.values())
        ends = {STORE: "stored", FORGET: "deleted"}
        open_calls = {
            f"calls of {tool} without a result, which count as not {end}": waiting[tool]
            for tool, end in ends.items()
            if waiting[tool]
        }
        return dict(self._counts) | open_calls

    def _act(self, call: Call, answer: Answer, moment: Moment) -> None:
        {STORE: self._store, FORGET: self._forget, RECALL: self._recall}[call.tool](call, answer, moment)

    def _store(self, call: Call, answer: Answer, moment: Moment) -> None:
        stored, text = answer.details, call.arguments.get("text")
        if answer.failed or stored.get("error") or stored.get("action", "created") != "created":
            self._counts[f"calls of {STORE} that stored nothing"] += 1
            return
        if not isinstance(text, str) or not text.strip():
            self._counts[f"calls of {STORE} without a text"] += 1
            return
        row = stored.get("id")
        if isinstance(row, str) and row:
            if row in self._rows:
                self._counts[f"results of {STORE} that tell of one memory twice"] += 1
                return
            self._rows[row] = len(self._stored)
        # The result knows what became of what was asked for.
        label = stored.get("importance_label")
        self._stored.append(
            Memory(
                call.key,
                text,
                text,
                visible_from=moment.seq,
                created_at=moment.time_ms,
                category=_word(stored.get("category")) or _word(call.arguments.get("category")) or "other",
                scope=_word(stored.get("scope")) or _word(call.arguments.get("scope")) or GLOBAL,
                label=label if label in LABELS else _label(call.arguments.get("importance")),
            )
        )

    def _forget(self, call: Call, answer: Answer, moment: Moment) -> None:
        told = answer.details
        self._learn(told.get("candidates"))
        named = call.arguments.get("memoryId")
        # A result without details, as hosts trim them, is believed where it is no error.
        action = told.get("action", "deleted" if not told and isinstance(named, str) else None)
        row = told.get("id", named)
        if action == "candidates" and not answer.failed and not told.get("error"):
            self._counts[f"calls of {FORGET} that listed candidates and deleted nothing"] += 1
        elif answer.failed or told.get("error") or action != "deleted" or not isinstance(row, str):
            self._counts[f"calls of {FORGET} that deleted nothing"] += 1
        elif (place := self._place_of(row)) is None:
            self._counts[f"calls of {FORGET} for memories that were stored elsewhere"] += 1
        elif self._stored[place].visible_until is not None:
            self._counts[f"calls of {FORGET} for memories that were forgotten before"] += 1
        else:
            self._stored[place] = replace(self._stored[place], visible_until=moment.seq)
            could_be_recalled = moment.seq > self._stored[place].visible_from
            self._counts[
                "memories forgotten, which no turn recalls from then on"
                if could_be_recalled
                else "memories forgotten before a turn could recall them, left out"
            ] += 1

    def _recall(self, call: Call, answer: Answer, moment: Moment) -> None:
        del call, moment
        self._learn(answer.details.get("memories"))

    def _learn(self, listed: Any) -> None:
        """Remember which text a row's id stands for: a store's result may have told no id."""
        for one in listed if isinstance(listed, list) else ():
            if isinstance(one, dict) and isinstance(one.get("id"), str) and isinstance(one.get("text"), str):
                self._texts[one["id"]] = one["text"]

    def _place_of(self, row: str) -> int | None:
        if row in self._rows:
            return self._rows[row]
        known = set(self._rows.values())
        unnamed = [
            place
            for place, memory in enumerate(self._stored)
            if place not in known and memory.visible_until is None and memory.text == self._texts.get(row)
        ]
        return unnamed[0] if unnamed else None


def _calls_of(content: Any) -> Iterator[tuple[str, Any, Any]]:
    """The calls of memory tools among the parts of a reply: tool, id of the call, arguments."""
    for part in content if isinstance(content, list) else ():
        if not isinstance(part, dict) or part.get("type") != "toolCall":
            continue
        tool, arguments = part.get("name"), part.get("arguments")
        if tool == WRAPPER and isinstance(arguments, dict):
            # The id may say whose tool it is: openclaw:openclaw-mem-engine:memory_store.
            tool, arguments = str(arguments.get("id", "")).rpartition(":")[2], arguments.get("args")
        if tool in (STORE, FORGET, RECALL):
            yield tool, part.get("id"), arguments


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(value: Any) -> str | None:
    """A name as the engine writes it, or None."""
    return value.strip().lower() or None if isinstance(value, str) else None


def _label(importance: Any) -> str:
    """Return the label that ``memory_store`` gives (E-2): by the score alone, unknown without one."""
    try:
        score = float(importance.strip() or 0) if isinstance(importance, str) else importance
    except ValueError:
        return "unknown"
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        return "unknown"
    return "must_remember" if score >= 0.8 else "nice_to_have" if score >= 0.5 else "ignore"
