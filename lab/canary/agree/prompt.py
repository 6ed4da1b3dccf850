"""The prompts that a host sent to its model, computed from a session (CN-23).

A host sends its tools and system prompt, the messages of the session, and the injected block before the text of the
last user's message. It stores that message without the block, and so it sends it later. Neither tools nor system prompt
are stored in a session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from lab.base.regex import regex
from lab.base.token_estimate import tokens
from lab.recordings.openclaw.entries import Entry, text_of, time_of
from lab.recordings.openclaw.transcript import HOST_MODEL

# A compaction's summary, as the host sends it.
_SUMMARY = (
    "The conversation history before this point was compacted into the following summary:\n\n<summary>\n{}\n</summary>"
)
_STAMPED = regex(r"\[\w{3} \d{4}-\d{2}-\d{2} \d{2}:\d{2}")
_FAILED = ("error", "aborted")


class Message(NamedTuple):
    """A message of a request: its role, and its text with the names and arguments of the tools that it calls."""

    role: str
    text: str


class Usage(NamedTuple):
    """The tokens that a provider counted for one call, as the host stores them: its prompt is the first three."""

    input: int
    cache_read: int
    cache_write: int
    output: int

    @property
    def prompt(self) -> int:
        """All tokens of the prompt."""
        return self.input + self.cache_read + self.cache_write


class Call(NamedTuple):
    """A call of the model: what it was sent of the session, without the block, and what it answered.

    ``user`` is the id of the last user's message, which is ``messages[at]``. ``messages`` is a list that grows with the
    next call. ``session`` counts resets, ``part`` also compactions, each of which begins the messages anew. ``usage``
    is None if the host stores no usable one.
    """

    session: int
    part: int
    user: str
    at: int
    messages: Sequence[Message]
    time_ms: int | None
    usage: Usage | None
    output: int


def calls_of(entries: Iterable[Entry]) -> Iterator[Call]:
    """Yield the calls of the model in the active branch of a session, in order.

    Not repeated is that the host later joins a message that follows a command of the host with it, by one line break.
    """
    messages: list[Message] = []
    places: dict[str, int] = {}
    user, at, session, part = None, 0, 0, 0
    for entry in entries:
        kind = entry.value["type"]
        if kind == "reset":
            messages, places, user, session, part = [], {}, None, session + 1, part + 1
        elif kind == "compaction":
            first = places.get(str(entry.value.get("firstKeptEntryId")), len(messages))
            summary, moved = text_of(entry.value.get("summary")), first - 1
            messages = [Message("user", _SUMMARY.format(summary)), *messages[first:]]
            places = {name: place - moved for name, place in places.items() if place > moved}
            at, part = max(at - moved, 0), part + 1
        elif kind in ("branch_summary", "custom_message"):
            messages.append(Message("user", text_of(entry.value.get("content") or entry.value.get("summary"))))
        places[entry.id] = len(messages)
        message = entry.value.get("message") if kind == "message" else None
        # The host does not send its own replies.
        if not isinstance(message, dict) or message.get("model") == HOST_MODEL:
            continue
        role, text = message.get("role"), text_of(message.get("content"))
        if role == "user":
            user, at = entry.id, len(messages)
            messages.append(Message("user", _stamped(text, entry, message)))
        elif role == "toolResult":
            messages.append(Message("tool", text))
        elif role == "assistant":
            answer = Message("assistant", text + _tool_calls(message.get("content")))
            if user is not None:
                usage = usage_of(message)
                output = usage.output if usage else tokens(answer.text)
                yield Call(session, part, user, at, messages, time_of(entry), usage, output)
            if message.get("stopReason") not in _FAILED:
                messages.append(answer)


def _stamped(text: str, entry: Entry, message: Mapping[str, Any]) -> str:
    """Return a user's message as the host sends it: behind its time, unless it has one. The zone is taken for UTC."""
    time = message.get("timestamp")
    time_ms = time if isinstance(time, int) and not isinstance(time, bool) else time_of(entry)
    if time_ms is None or _STAMPED.match(text):
        return text
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):[%a %Y-%m-%d %H:%M UTC]} {text}"


def stamp_of(text: str) -> str:
    """Return the time that a message begins with, behind which the block stands; "" if there is none."""
    return text[: text.find("] ") + 2] if _STAMPED.match(text) else ""


def _tool_calls(content: object) -> str:
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(
        f"{part.get('name')}{json.dumps(part.get('arguments'), ensure_ascii=False, separators=(',', ':'))}"
        for part in parts
        if part.get("type") == "toolCall"
    )


# The names of the four counts: OpenClaw's own, Anthropic's, and OpenAI's, whose prompt includes what was cached.
_CACHED = "cached_tokens"
_COUNTS = (
    ("input", "input_tokens", "prompt_tokens"),
    ("cacheRead", "cache_read_input_tokens", _CACHED),
    ("cacheWrite", "cache_creation_input_tokens"),
    ("output", "output_tokens", "completion_tokens"),
)


def usage_of(message: Mapping[str, Any]) -> Usage | None:
    """Return the usage fields of an assistant's message; None if one is missing or no count, or if all are 0.

    Only what was written to a cache may be missing, as providers without marks do not count it.
    """
    given = message.get("usage")
    if not isinstance(given, Mapping):
        return None
    details = given.get("prompt_tokens_details", given.get("input_tokens_details"))
    fields = {**details, **given} if isinstance(details, Mapping) else given
    counts = [next((fields[name] for name in names if name in fields), None) for names in _COUNTS]
    if not any(name in fields for name in _COUNTS[2]):
        counts[2] = 0
    whole = [count for count in counts if isinstance(count, int) and not isinstance(count, bool) and count >= 0]
    if len(whole) < len(counts):
        return None
    usage = Usage(*whole)
    if not any(name in fields for name in _COUNTS[1][:2]):
        usage = usage._replace(input=usage.input - usage.cache_read)
    return usage if usage.input >= 0 and usage.prompt else None
