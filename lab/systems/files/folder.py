"""The files of a workspace: which memory or turn is written to which file, and how (HB-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from lab.base.files import private_folder
from lab.recordings.model import MUST, Memory, Turn
from lab.systems.files.chunks import Entry

CURATED, NOTES, DRAFTS, SESSIONS = "MEMORY.md", "memory", "memory/drafts", "sessions"
# The host wraps lines of transcripts at this many characters.
WRAP = 800
_NAMES = {"user": "User", "assistant": "Assistant"}
_SILENT = frozenset({"", "HEARTBEAT_OK", "NO_REPLY"})
# An entry with its lines.
Written = tuple[Entry, tuple[str, ...]]


class File:
    """One file on the disk: which entry each of its lines belongs to, and how much of it was read.

    ``changed_ms`` is the time of its last entry, in epoch milliseconds.
    """

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.source = SESSIONS if path.startswith(SESSIONS) else NOTES
        self.changed_ms = 0
        self._file = root / path
        self._owners: list[Entry] = []
        self._read = self._offset = 0
        private_folder(self._file.parent)

    def append(self, entry: Entry, lines: Sequence[str]) -> None:
        """Write the lines of an entry."""
        self._owners += [entry] * len(lines)
        with self._file.open("ab") as stream:
            stream.writelines(f"{line}\n".encode("utf-8", "surrogatepass") for line in lines)

    def remove(self, identity: str) -> None:
        """Write the file again without an entry; it is to be read from the start."""
        content = self._file.read_bytes().split(b"\n")
        kept = [(entry, line) for entry, line in zip(self._owners, content, strict=False) if entry.id != identity]
        self._file.write_bytes(b"".join(line + b"\n" for _, line in kept))
        self._owners = [entry for entry, _ in kept]
        self._read = self._offset = 0

    def unread(self) -> Iterator[tuple[int, str, Entry]]:
        """Yield number, text and entry of each line that was not read yet."""
        with self._file.open("rb") as stream:
            stream.seek(self._offset)
            content = stream.read()
        self._offset += len(content)
        for line in content.split(b"\n")[:-1]:
            entry = self._owners[self._read]
            self._read += 1
            yield self._read, line.decode("utf-8", "surrogatepass"), entry


class Folder:
    """The workspace below ``root``. ``changed`` are the files that grew; those in ``rewritten`` also lost an entry."""

    def __init__(self, root: Path) -> None:
        self.files: dict[str, File] = {}
        self.changed: dict[str, None] = {}
        self.rewritten: set[str] = set()
        self._root = root
        self._places: dict[str, File] = {}

    def append(self, path: str, entry: Entry, lines: Sequence[str], time_ms: int) -> None:
        """Add an entry to a file."""
        file = self.files.get(path) or self.files.setdefault(path, File(self._root, path))
        file.append(entry, lines)
        file.changed_ms = time_ms
        if entry.id:
            self._places[entry.id] = file
        self.changed[path] = None

    def remove(self, identity: str) -> None:
        """Remove an entry from its file; nothing if there is none."""
        if (file := self._places.pop(identity, None)) is None:
            return
        file.remove(identity)
        self.changed[file.path] = None
        self.rewritten.add(file.path)


def note_of(memory: Memory) -> tuple[str, Written]:
    """Return path, entry and lines of a memory.

    What must be remembered is curated in ``MEMORY.md``; everything else is a note of its day. A note is a list item;
    its further lines are indented.
    """
    durable = memory.label == MUST or memory.hard_rule
    path = CURATED if durable else f"{NOTES}/{_day(memory.created_at)}.md"
    first, *others = memory.text.splitlines() or [""]
    return path, (Entry(memory.key, memory.text, (memory.key,)), (f"- {first}", *(f"  {line}" for line in others)))


def draft_of(turn: Turn) -> tuple[str, list[Written]]:
    """Return path and entry of the output of a tool."""
    text = turn.said or turn.text
    lines = (*text.splitlines(), "") if text.strip() else ()
    return f"{DRAFTS}/{_day(turn.time_ms)}.md", [(Entry(f"{turn.key}#0", text, (turn.key,)), lines)] if lines else []


def transcript_of(turn: Turn, number: int, text: str) -> tuple[str, list[Written]]:
    """Return path and entries of a message in the ``number``-th session: one a line of at most :data:`WRAP` characters.

    ``text`` is what the host keeps of the message. White space is collapsed, and silent replies are left out.
    """
    path, text = f"{SESSIONS}/{number}.jsonl", " ".join(text.split())
    if turn.role not in _NAMES or text in _SILENT:
        return path, []
    lines = [f"{_NAMES[turn.role]}: {part}" for part in _wrapped(text)]
    return path, [(Entry(f"{turn.key}#{at}", line, (turn.key,)), (line,)) for at, line in enumerate(lines)]


def _wrapped(text: str) -> list[str]:
    """Cut a text at the last space of each :data:`WRAP` characters, or within a word that is longer."""
    parts: list[str] = []
    while len(text) > WRAP:
        at = text.rfind(" ", 1, WRAP + 1)
        at = at if at > 0 else WRAP
        parts.append(text[:at])
        text = text[at:].lstrip(" ")
    return [*parts, text] if text else parts


def _day(time_ms: int) -> str:
    """Return the day in UTC as ``YYYY-MM-DD``."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d}"
