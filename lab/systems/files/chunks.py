"""Cut a growing file into chunks of whole lines with overlap, as the host's memory index does (HB-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lab.base.utf16 import js_length

# The host counts four characters a token, and a CJK character as four characters.
CHARS_PER_TOKEN, LEAST_CHARS = 4, 32
_WIDE = re.compile("[\u3000-\u319f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff01-\uff60]")
_ENTRY = re.compile(r"- |#{1,6}(?:\s|$)")


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
