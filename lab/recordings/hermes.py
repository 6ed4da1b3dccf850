"""Session logs of a Hermes agent (vectorize-io/hindsight, MIT): JSON Lines, replayed without gold.

A file is one conversation. A line is what the agent sent to its memory: the exchanges of a chat up to then, so a line
repeats those before it and adds the newest. An exchange is said once, by time and words; a line that repeats nothing
begins another session. ``User:``, ``Assistant:`` and the ``[System note: …]`` that the host puts before a user's words
are taken off. Nothing was extracted, so every user turn is a memory.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lab.errors import UnusableInput
from lab.files import read_json_values
from lab.golden.model import GoldenSet
from lab.recordings.cleaning import language_of
from lab.recordings.model import Memory, Recording, Turn, in_birth_order
from lab.shape import expect, field

PATTERN = "*hermes*"
IGNORED = ("*.md",)
PREFIXES = {"user": "User: ", "assistant": "Assistant: "}
HOST = re.compile(r"\A\[System note:[^\]]*\]\s*")


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one log; its golden set is empty."""
    name = path.stem
    turns: list[Turn] = []
    memories: list[Memory] = []
    known: set[tuple[tuple[str, str, str], ...]] = set()
    clock = sessions = lines = written = noted = 0
    for number, exchanges in read_json_values(path):
        at = f"{path}:{number}"
        lines += 1
        read_as = [_exchange(one, f"{at}: [{index}]") for index, one in enumerate(expect(exchanges, list, at))]
        written += sum(map(len, read_as))
        sessions += not any(one in known for one in read_as)
        session = f"c{sessions:03d}"
        for exchange in read_as:
            if exchange in known:
                continue
            known.add(exchange)
            for role, said, moment in exchange:
                text = said.removeprefix(PREFIXES.get(role, "")).strip()
                if role == "user":
                    text, found = HOST.subn("", text)
                    noted += found
                if not text:
                    continue
                clock = max(clock + 1, _time_ms(moment, at))
                turn = Turn(f"{name}/{session}/{len(turns)}", len(turns), session, role, text, clock, speaker=role)
                turns.append(turn)
                if role == "user":
                    memories.append(Memory(f"{turn.key}#0", text, text, visible_from=len(turns), created_at=clock))
    notes = [f"{name}: {lines} logged conversations with {written} messages, {len(turns)} of them said once"]
    if noted:
        notes.append(f"{name}: notes of the host taken off user messages: {noted}")
    language = language_of([turn.text for turn in turns])
    recording = Recording(name, tuple(turns), in_birth_order(memories), language=language, notes=tuple(notes))
    return [(recording, GoldenSet(notes=tuple(notes)))]


def _exchange(value: Any, at: str) -> tuple[tuple[str, str, str], ...]:
    """Role, words and time of every message of an exchange."""
    return tuple(
        (
            field(one, "role", str, f"{at}[{index}]"),
            field(one, "content", str, f"{at}[{index}]"),
            field(one, "timestamp", str, f"{at}[{index}]"),
        )
        for index, one in enumerate(expect(value, list, at))
    )


def _time_ms(text: str, where: str) -> int:
    """An ISO 8601 time as epoch milliseconds, read as UTC where it names no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UnusableInput(f"{where}: timestamp {text!r} is not ISO 8601") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
