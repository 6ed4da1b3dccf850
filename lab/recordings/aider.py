"""Reader of aider chat histories (``.aider.chat.history.md``): one developer and a coding agent, without gold.

A file is one conversation, and each ``# aider chat started at`` line begins a session. Consecutive lines that begin
with ``#### `` and end in two blanks form one user turn: aider ends every line of a user so, which tells them from the
headings of a reply (AI-1). Lines that begin with ``> `` are output of aider and are dropped, and all other lines belong
to the agent (including ``>>>>>>> REPLACE``, which ends an edit). Where aider answers its own question, it writes the
answer as a user's line, which is no turn; neither is a prompt of its own (:data:`PROMPT`). aider extracts no memories,
so every user turn becomes a memory, except commands such as ``/undo`` and ``<blank>``, which stands for an empty line.
Sessions without a user turn are dropped and counted. Only the start of a session has a time; its turns follow at
intervals of 1 ms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from lab.base.errors import UnusableInput
from lab.base.files import read_text
from lab.base.formatting import counted
from lab.base.regex import regex
from lab.base.times import epoch_ms
from lab.golden.model import GoldenSet
from lab.recordings.cleaning import language_of
from lab.recordings.model import Chat, Recording

COMMAND = regex(r"/[a-z]")
BLANK = "<blank>"
# aider answers its own question in this form if a person chose one answer for all of a group.
ANSWER = regex(r"[^\n]*\(Y\)es/\(N\)o[^\n]*\]: ?[a-z']*\Z")
# Prompts that aider wrote itself: errors to fix, and the question of ``/help``, again, with pages of its documents.
PROMPT = regex(r"# (?:Fix any errors below, if possible\.|Question: [^\n]*\n+# Relevant docs:)")
USER, LINE_END = "####", "  "
STARTED = regex(r"^# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*$", re.MULTILINE)


def read(path: Path, _memories: str) -> list[tuple[Recording, GoldenSet]]:
    """Read one history; its golden set is empty."""
    text = read_text(path)
    starts = list(STARTED.finditer(text))
    if not starts:
        raise UnusableInput(f"{path}: has no line like '# aider chat started at 2024-08-05 19:33:02'")
    name = path.stem.lstrip(".") or "aider"
    chat = Chat(name)
    sessions: Counter[str] = Counter()
    empty = commands = blank = own = prompts = 0
    # An editor may have trimmed all lines; then nothing but the mark tells a user's line.
    trimmed = not re.search(rf"^{USER} .*{LINE_END}$", text, re.MULTILINE)
    for number, start in enumerate(starts):
        until = starts[number + 1].start() if number + 1 < len(starts) else len(text)
        spoken = list(_turns(text[start.end() : until], trimmed))
        written = len(spoken)
        spoken = [(role, words) for role, words in spoken if role != "user" or not ANSWER.match(words)]
        own += written - len(spoken)
        written = len(spoken)
        spoken = [(role, words) for role, words in spoken if role != "user" or not PROMPT.match(words)]
        prompts += written - len(spoken)
        if not any(role == "user" for role, _ in spoken):
            empty += 1
            continue
        started = _time_ms(start, path)
        session = f"{start[1]}T{start[2]}"
        sessions[session] += 1
        if sessions[session] > 1:
            session += f"-{sessions[session]}"
        for index, (role, words) in enumerate(spoken):
            turn = chat.say(session, index, role, words, started)
            if role == "user" and words == BLANK:
                blank += 1
            elif role == "user" and COMMAND.match(words):
                commands += 1
            elif role == "user":
                chat.keep(f"{turn.key}#0", words, words)
    notes = [f"{name}: {len(starts)} chats started, {empty} dropped because they have no user turn"]
    if commands:
        notes.append(f"{name}: {counted(commands, 'command')} to aider not kept as memories")
    if blank:
        notes.append(f"{name}: {counted(blank, 'empty line')} of the user ({BLANK}) not kept as memories")
    if own:
        notes.append(f"{name}: {counted(own, 'answer')} of aider to its own questions skipped")
    if prompts:
        notes.append(f"{name}: {counted(prompts, 'prompt')} that aider wrote itself skipped")
    if trimmed and f"\n{USER} " in text:
        notes.append(
            f"{name}: the blanks at the ends of lines were trimmed; headings of replies may be read as a user's"
        )
    if text[: starts[0].start()].strip():
        notes.append(f"{name}: text before the first chat dropped")
    language = language_of([turn.text for turn in chat.turns if turn.role == "user"])
    return [(chat.recording(notes, language), GoldenSet(notes=tuple(notes)))]


def _turns(text: str, trimmed: bool) -> Iterator[tuple[str, str]]:
    """Yield the role and text of each turn of a session; ``trimmed`` says that no line ends in blanks."""
    role, lines = "assistant", list[str]()
    for line in text.split("\n"):
        is_user = _marked(line, USER) and (trimmed or line.rstrip("\r").endswith(LINE_END))
        if is_user != (role == "user"):
            yield from _turn(role, lines)
            role, lines = ("user" if is_user else "assistant"), []
        if is_user:
            lines.append(line.removeprefix(USER).removeprefix(" ").rstrip())
        elif not _marked(line, ">"):
            lines.append(line.rstrip())
    yield from _turn(role, lines)


def _marked(line: str, mark: str) -> bool:
    """Return whether a line is the mark, or begins with the mark and a space."""
    return line.startswith(f"{mark} ") or line == mark


def _turn(role: str, lines: list[str]) -> Iterator[tuple[str, str]]:
    words = "\n".join(lines).strip()
    if words:
        yield role, words


def _time_ms(start: re.Match[str], path: Path) -> int:
    """Return the start of a chat in epoch milliseconds, read as UTC."""
    time_ms = epoch_ms(f"{start[1]}T{start[2]}")
    if time_ms is None:
        line = start.string.count("\n", 0, start.start()) + 1
        raise UnusableInput(f"{path}:{line}: {start[1]} {start[2]} is not a valid time")
    return time_ms
