"""Chat histories of aider (``.aider.chat.history.md``): one developer and a coding agent, replayed without gold.

A file is one conversation, each ``# aider chat started at`` one of its sessions. As in aider's own reader, lines that
begin with ``#### `` are the user's, and those that follow one another are one turn; lines that begin with ``> `` are
what aider itself printed and are left out; the rest is the agent's (``>>>>>>> REPLACE`` ends one of its edits). Nothing
was extracted, so every user turn is a memory, but for commands to aider itself (``/undo``), which nobody would keep.
Sessions in which the user says nothing are left out and counted. Between the turns of a session there is no time but
their order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from lab.errors import UnusableInput
from lab.files import read_text
from lab.formatting import counted
from lab.golden.model import GoldenSet
from lab.recordings.cleaning import language_of
from lab.recordings.model import Memory, Recording, Turn, in_birth_order

IGNORED = ("README.md",)
HISTORY = ".aider.chat.history.md"
COMMAND = re.compile(r"/[a-z]")
STARTED = re.compile(r"^# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*$", re.MULTILINE)


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one history; its golden set is empty."""
    text = read_text(path)
    starts = list(STARTED.finditer(text))
    if not starts:
        raise UnusableInput(f"{path}: holds no line like '# aider chat started at 2024-08-05 19:33:02'")
    name = path.stem.lstrip(".") or "aider"
    turns: list[Turn] = []
    memories: list[Memory] = []
    sessions: Counter[str] = Counter()
    clock = silent = commands = 0
    for number, start in enumerate(starts):
        until = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        said = list(_turns(text[start.end() : until]))
        if not any(role == "user" for role, _ in said):
            silent += 1
            continue
        moment = _time_ms(start, path)
        session = f"{start[1]}T{start[2]}"
        sessions[session] += 1
        if sessions[session] > 1:
            session += f"-{sessions[session]}"
        for index, (role, words) in enumerate(said):
            clock = max(clock + 1, moment)
            turn = Turn(f"{name}/{session}/{index}", len(turns), session, role, words, clock, speaker=role)
            turns.append(turn)
            if role == "user" and COMMAND.match(words):
                commands += 1
            elif role == "user":
                memories.append(Memory(f"{turn.key}#0", words, words, visible_from=len(turns), created_at=clock))
    notes = [f"{name}: {len(starts)} chats started, {silent} left out because the user says nothing in them"]
    if commands:
        notes.append(f"{name}: {counted(commands, 'command')} to aider itself left out of the memories")
    if text[: starts[0].start()].strip():
        notes.append(f"{name}: what stands before the first start was left out")
    language = language_of([turn.text for turn in turns if turn.role == "user"])
    recording = Recording(name, tuple(turns), in_birth_order(memories), language=language, notes=tuple(notes))
    return [(recording, GoldenSet(notes=tuple(notes)))]


def _turns(text: str) -> Iterator[tuple[str, str]]:
    """Role and words of each turn of one session."""
    role, lines = "assistant", list[str]()
    for line in text.split("\n"):
        asks = _marked(line, "####")
        if asks != (role == "user"):
            yield from _turn(role, lines)
            role, lines = ("user" if asks else "assistant"), []
        if asks:
            lines.append(line.removeprefix("####").removeprefix(" ").rstrip())
        elif not _marked(line, ">"):
            lines.append(line.rstrip())
    yield from _turn(role, lines)


def _marked(line: str, mark: str) -> bool:
    """Whether a line begins with a mark and a blank, or is the mark alone."""
    return line.startswith(f"{mark} ") or line == mark


def _turn(role: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    words = "\n".join(lines).strip()
    if words:
        yield role, words


def _time_ms(start: re.Match[str], path: Path) -> int:
    """When a chat started, in epoch milliseconds, read as UTC."""
    try:
        return int(datetime.fromisoformat(f"{start[1]}T{start[2]}").replace(tzinfo=UTC).timestamp()) * 1000
    except ValueError:
        line = start.string.count("\n", 0, start.start()) + 1
        raise UnusableInput(f"{path}:{line}: {start[1]} {start[2]} is no time") from None
