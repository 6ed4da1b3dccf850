"""Reader of the session logs of a Hermes agent (vectorize-io/hindsight, MIT): JSON Lines, without gold.

A file is one conversation. Each line is a request to the agent's memory and holds all exchanges of the chat so far, so
consecutive lines overlap. Exchanges with the same times and texts are duplicates and are read once; a line that
repeats no earlier exchange begins a new session. The reader removes ``User:``, ``Assistant:`` and the
``[System note: …]`` that the host puts before a user's message. The log contains no extracted memories, so every user
turn becomes a memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.base.errors import UnusableInput
from lab.base.files import read_json_values
from lab.base.regex import regex
from lab.base.shape import expect, field
from lab.base.times import Times
from lab.golden.model import GoldenSet
from lab.recordings.cleaning import language_of
from lab.recordings.model import Chat, Recording

PREFIXES = {"user": "User: ", "assistant": "Assistant: "}
HOST = regex(r"\A\[System note:[^\]]*\]\s*")


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one log; its golden set is empty."""
    name = path.stem
    chat = Chat(name)
    known: set[tuple[tuple[str, str, object], ...]] = set()
    sessions = lines = message_count = noted = 0
    times = Times()
    for number, exchanges in read_json_values(path):
        at = f"{path}:{number}"
        lines += 1
        parsed = [_exchange(exchange, f"{at}: [{index}]") for index, exchange in enumerate(expect(exchanges, list, at))]
        message_count += sum(map(len, parsed))
        sessions += not any(exchange in known for exchange in parsed)
        session = f"c{sessions:03d}"
        for exchange in parsed:
            if exchange in known:
                continue
            known.add(exchange)
            for role, content, timestamp in exchange:
                text = content.removeprefix(PREFIXES.get(role, "")).strip()
                if role == "user":
                    text, count = HOST.subn("", text)
                    noted += count
                if not text:
                    continue
                if (time_ms := times.read(timestamp)) is None:
                    raise UnusableInput(f"{at}: timestamp {timestamp!r} is not ISO 8601")
                turn = chat.say(session, len(chat.turns), role, text, time_ms)
                if role == "user":
                    chat.keep(f"{turn.key}#0", text, text)
    notes = [f"{name}: {lines} logged conversations with {message_count} messages, {len(chat.turns)} of them distinct"]
    if noted:
        notes.append(f"{name}: host notes removed from user messages: {noted}")
    notes += [f"{name}: {what}: {count}" for what, count in times.counts().items()]
    language = language_of([turn.text for turn in chat.turns])
    return [(chat.recording(notes, language), GoldenSet(notes=tuple(notes)))]


def _exchange(value: Any, at: str) -> tuple[tuple[str, str, object], ...]:
    """Return the role, text and time of every message of an exchange."""
    return tuple(
        (
            field(message, "role", str, f"{at}[{index}]"),
            field(message, "content", str, f"{at}[{index}]"),
            field(message, "timestamp", object, f"{at}[{index}]"),
        )
        for index, message in enumerate(expect(value, list, at))
    )
