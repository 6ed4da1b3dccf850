"""The files of a workspace: which memory or turn is written to which file (HB-2), and how files are cut (HB-3).

A growing file is cut into chunks of whole lines with overlap, as the host's memory index does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from lab.base.errors import UnusableInput
from lab.base.files import private_folder
from lab.base.regex import regex
from lab.base.utf16 import js_length
from lab.recordings.model import MUST, Memory, Turn

# The host counts four characters a token, and a CJK character as four characters.
CHARS_PER_TOKEN, LEAST_CHARS = 4, 32
_WIDE = regex("[\u3000-\u319f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60]")
_ENTRY = regex(r"- |#{1,6}(?:\s|$)")


class Entry(NamedTuple):
    """What was written to a file at once: a memory, a line of a transcript, or the output of a tool.

    ``id`` is the key of the memory, or the id of what the system stored; blank if it may not be an item.
    """

    id: str
    text: str
    sources: tuple[str, ...] = ()


class Piece(NamedTuple):
    """A line of a file, or a part of one; lines count from 1."""

    line: int
    text: str
    entry: Entry


class Chunk(NamedTuple):
    """Consecutive lines of a file; ``source`` is ``memory`` or ``sessions``."""

    path: str
    source: str
    pieces: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The text that is embedded and searched."""
        return "\n".join(piece.text for piece in self.pieces)

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line."""
        return self.pieces[0].line, self.pieces[-1].line

    def shown(self, characters: int) -> tuple[Entry, ...]:
        """Return the entries that the first ``characters`` characters of the text show, in order (HB-7).

        An entry is shown if half of it is, or half of ``characters``.
        """
        counts: dict[int, tuple[Entry, int]] = {}
        left = characters
        for piece in self.pieces:
            entry, count = counts.get(id(piece.entry), (piece.entry, 0))
            counts[id(piece.entry)] = entry, count + min(len(piece.text), max(0, left))
            left -= len(piece.text) + 1
        return tuple(
            entry
            for entry, count in counts.values()
            if entry.id and count and count >= min(len(entry.text), characters) / 2
        )


def width(text: str) -> int:
    """Return the length of a text in UTF-16 code units, with a CJK character as four."""
    return len(text) if text.isascii() else js_length(text) + (CHARS_PER_TOKEN - 1) * len(_WIDE.findall(text))


class Chunker:
    """Cuts one file as its lines arrive, so that appending costs nothing for what is there already.

    ``tokens`` is the largest size of a chunk and ``overlap`` that of its repeated start. ``by_entry``: every list item
    and heading begins a chunk, without overlap, as in ``MEMORY.md``.
    """

    def __init__(self, path: str, source: str, tokens: int, overlap: int, *, by_entry: bool = False) -> None:
        self._path, self._source = path, source
        self._limit = max(LEAST_CHARS, CHARS_PER_TOKEN * tokens)
        self._overlap = CHARS_PER_TOKEN * overlap
        self._by_entry = by_entry
        self._pieces: list[Piece] = []
        self._size = 0

    def add(self, number: int, line: str, entry: Entry) -> Iterator[Chunk]:
        """Add a line and yield the chunks that it completes."""
        if self._by_entry and self._pieces and _ENTRY.match(line):
            yield self._chunk()
            self._pieces, self._size = [], 0
        for part in _parts(line, self._limit):
            size = width(part) + 1
            if self._pieces and self._size + size > self._limit:
                yield self._chunk()
                self._carry(min(self._overlap, max(0, self._limit - size)))
            self._pieces.append(Piece(number, part, entry))
            self._size += size

    def rest(self) -> Chunk | None:
        """Return the last chunk, which more lines may still change."""
        return self._chunk() if self._pieces else None

    def _chunk(self) -> Chunk:
        return Chunk(self._path, self._source, tuple(self._pieces))

    def _carry(self, room: int) -> None:
        """Keep the last lines that fit, or the end of the last line if not even that fits."""
        kept: list[Piece] = []
        size = 0
        for piece in reversed(self._pieces):
            text = piece.text
            if size + width(text) + 1 > room:
                text = "" if kept else _tail(text, room - 1)
                if not text:
                    break
            kept.insert(0, Piece(piece.line, text, piece.entry))
            size += width(text) + 1
            if text != piece.text or size >= room:
                break
        self._pieces, self._size = kept, size


def _parts(line: str, limit: int) -> list[str]:
    """Cut a line into parts of at most ``limit`` characters as counted by :func:`width`."""
    if width(line) <= limit:
        return [line]
    parts: list[str] = []
    begin = size = 0
    for at, character in enumerate(line):
        wide = width(character)
        if size + wide > limit:
            parts.append(line[begin:at])
            begin, size = at, 0
        size += wide
    return [*parts, line[begin:]]


def _tail(text: str, room: int) -> str:
    """Return the longest end of a text that is at most ``room`` wide."""
    begin, size = len(text), 0
    while begin and (size := size + width(text[begin - 1])) <= room:
        begin -= 1
    return text[begin:]


CURATED, NOTES, DRAFTS, SESSIONS = "MEMORY.md", "memory", "memory/drafts", "sessions"
# The host wraps lines of transcripts at this many characters.
WRAP = 800
_NAMES = {"user": "User", "assistant": "Assistant"}
_SILENT = frozenset({"", "HEARTBEAT_OK", "NO_REPLY"})
# The host reads Markdown alone. What is outside of the workspace gets a folder of its own.
MARKDOWN, EXTRA = (".md",), "extra"
SUFFIXES = (".md", ".markdown", ".txt")
# A larger file does not count as a document.
MOST_BYTES = 2_000_000
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


def read_documents(folder: Path, suffixes: Sequence[str] = SUFFIXES) -> tuple[dict[str, str], int]:
    """Return the texts of the documents below a folder by path, and the number of files that cannot be read as such."""
    texts: dict[str, str] = {}
    skipped = 0
    root = folder.resolve()
    try:
        paths = sorted(root.rglob("*"))
    except OSError:
        # Its folder may not be entered.
        return {}, 0
    for path in paths:
        inside = path.relative_to(root)
        if path.suffix.lower() not in suffixes or any(part.startswith(".") for part in inside.parts):
            continue
        try:
            # A citation is UTF-8, as a name need not be.
            inside.as_posix().encode()
            if not path.resolve().is_relative_to(root) or not path.is_file():
                continue
            if path.stat().st_size > MOST_BYTES:
                skipped += 1
                continue
            texts[inside.as_posix()] = path.read_text(encoding="utf-8")
        except (OSError, RuntimeError, UnicodeError):
            # A link that leads to itself is a RuntimeError before Python 3.13.
            skipped += 1
    return texts, skipped


def operators_files(paths: Sequence[str], where: str = "") -> dict[str, str]:
    """Return the texts of the operator's own Markdown files by their path in the workspace (seed 004).

    ``paths`` are those of ``memorySearch.extraPaths``, from the current folder: folders and single files. Raises
    :class:`UnusableInput` for one that has no Markdown; ``where`` names the configuration in the message.
    """
    texts: dict[str, str] = {}
    for given in paths:
        root = Path(given).expanduser()
        found = read_documents(root, MARKDOWN)[0] if root.is_dir() else _file(root)
        if not found:
            at = f"{where}: extraPaths" if where else "extraPaths"
            raise UnusableInput(f"{at}: {given}: no Markdown that can be read; expected a folder or a file")
        texts |= {f"{EXTRA}/{root.name}/{path}".rstrip("/"): text for path, text in found.items()}
    return texts


def _file(path: Path) -> dict[str, str]:
    if path.suffix.lower() not in MARKDOWN:
        return {}
    try:
        return {"": path.read_text(encoding="utf-8")}
    except (OSError, UnicodeError):
        return {}
