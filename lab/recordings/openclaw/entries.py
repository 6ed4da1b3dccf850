"""Parse the lines of a transcript into entries, and find the entries of the active branch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

# The type of an entry that selects another entry as the end of the active branch: ``{"type": "leaf", "targetId": …}``.
LEAF = "leaf"


class Entry(NamedTuple):
    """One line of a transcript (counted from 1) with its id.

    If the recorded id is missing, invalid or a duplicate, ``id`` is derived from the line number. ``mark`` identifies
    the entry across copies of the transcript: the recorded id, or the SHA-256 of the line.
    """

    line: int
    id: str
    value: dict[str, Any]
    mark: str


class Spoilt(NamedTuple):
    """A line that is not an entry: its number (0 for a database event without a number) and the reason."""

    line: int
    reason: str


class Transcript(NamedTuple):
    """The entries of one session in order, the invalid lines, and the number of lines."""

    entries: list[Entry]
    spoilt: list[Spoilt]
    lines: int

    def spoilt_notes(self, *, is_file: bool) -> list[str]:
        """Return notes on the invalid lines; the last line of a file may be truncated."""
        lines = [spoilt.line for spoilt in self.spoilt]
        if not is_file:
            return [
                f"{f'event {spoilt.line - 1} (seq)' if spoilt.line else 'an event'} {spoilt.reason} and was skipped"
                for spoilt in self.spoilt
            ]
        notes = []
        if lines and lines[-1] == self.lines:
            notes.append(f"the last line, {lines.pop()}, is truncated and was skipped")
        if lines:
            notes.append(f"lines that are not JSON entries, skipped (first: line {lines[0]}): {len(lines)}")
        return notes


def text_of(content: Any) -> str:
    """Return the text of a message, whose content is a string or a list of parts."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "\n".join(part for part in parts if isinstance(part, str))


def parse(lines: Iterable[tuple[int, bytes | Spoilt]]) -> Transcript:
    """Parse numbered lines of JSON. A line that is not an object with a ``type`` is spoilt; blank lines are ignored."""
    entries: list[Entry] = []
    spoilt: list[Spoilt] = []
    seen: set[str] = set()
    number = 0
    for number, line in lines:
        if isinstance(line, Spoilt):
            spoilt.append(line)
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and isinstance(value.get("type"), str):
            given = value.get("id")
            given = given if isinstance(given, str) else ""
            # JSON may contain lone surrogates and control characters, but the key of a turn may not.
            identity = given if given and given.isprintable() and given not in seen else f"line{number}"
            seen.add(identity)
            entries.append(Entry(number, identity, value, given or hashlib.sha256(line.strip()).hexdigest()))
        else:
            spoilt.append(Spoilt(number, "is not a JSON object with a type"))
    return Transcript(entries, spoilt, number)


def parse_file(data: bytes) -> Transcript:
    """Parse the bytes of a JSON Lines file."""
    return parse(enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1))


def parents_of(entries: list[Entry]) -> tuple[list[int], int]:
    """Return the position of each entry's parent (-1: none), and the number of entries whose parent is missing.

    The parent of a ``leaf`` entry is the entry that it selects. Parents come before their children, because a log is
    append-only. The previous entry replaces a missing parent, whose line was spoilt; it is also the parent in files of
    version 1, which have no parent ids.
    """
    positions: dict[str, int] = {}
    parents: list[int] = []
    lost = 0
    for position, entry in enumerate(entries):
        field = "targetId" if entry.value["type"] == LEAF and "targetId" in entry.value else "parentId"
        parent = entry.value.get(field, "")
        before = position - 1
        if parent is None:
            before = -1
        elif isinstance(parent, str) and parent in positions:
            before = positions[parent]
        elif field in entry.value:
            lost += 1
        parents.append(before)
        positions[str(entry.value.get("id", entry.id))] = position
    return parents, lost


def active_branch(entries: list[Entry], leaf: str | None = None) -> tuple[list[Entry], int]:
    """Return the entries of the active branch, root first, and the number of entries whose parent is missing.

    The branch ends at the entry with the id ``leaf``, else at the last entry; see :func:`parents_of`.
    """
    parents, lost = parents_of(entries)
    positions = {str(entry.value.get("id", entry.id)): position for position, entry in enumerate(entries)}
    branch: list[Entry] = []
    position = len(entries) - 1 if leaf is None else positions.get(leaf, len(entries) - 1)
    while position >= 0:
        branch.append(entries[position])
        position = parents[position]
    return branch[::-1], lost
